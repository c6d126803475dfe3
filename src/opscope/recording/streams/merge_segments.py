"""The trace of a recording in segments: one row group per segment, without loading all of them.

Later values of a row (its end, its parent) are written into the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import opscope._native as _native
from opscope.columns.codes import AllocationAction, Role
from opscope.columns.concat import joined
from opscope.columns.names import Names
from opscope.columns.schema import RECORDED_TABLES, TABLES
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.recording.assemble import (
    OngoingSteps,
    assemble_trace,
    engine_names,
    with_engine_links,
)
from opscope.recording.decoded import Decoded
from opscope.recording.ledger import Row
from opscope.recording.segments import Late, RecordingSegment
from opscope.recording.sources import RecordingOptions
from opscope.recording.streams.stream import NO_ROOM
from opscope.storage.long_trace import GROWING
from opscope.storage.manifest import Manifest
from opscope.storage.parquet import RowGroupWriter, write_table
from opscope.storage.partition import Partition
from opscope.storage.store import save_files

MOST = 4_000_000  # largest number of rows to match: each takes about 100 bytes of memory
_TABLES = ("tensors", "parameters", "allocations")
_OUTPUTS = (Role.OUTPUT, Role.OUTPUT_PART)


@dataclass(frozen=True)
class AllocationIds:
    """Allocation ids of the rows of all segments."""

    of: Mapping[tuple[str, Path], npt.NDArray[np.int64]]  # by table and folder of the segment
    unreported_frees: int  # allocations that ended without a free

    def added_to(self, table: Table, segment: RecordingSegment) -> Table:
        """A segment's table with its allocation ids."""
        ids = self.of.get((table.schema.name, segment.folder))
        return table if ids is None else table.replaced({"allocation_id": ids})


def can_match_frees(segments: Sequence[RecordingSegment]) -> bool:
    """Whether a recording is short enough for matching."""
    return sum(one.rows.get(name, 0) for one in segments for name in _TABLES) <= MOST


def allocation_ids(segments: Sequence[RecordingSegment]) -> AllocationIds:
    """Allocation ids of a recording with memory; empty if it is too long."""
    rows: list[tuple[tuple[str, Path], npt.NDArray[np.bool_]]] = []
    sightings: list[Sequence[npt.NDArray[Any]]] = []
    for name in _TABLES if can_match_frees(segments) else ():
        for segment in segments:
            if segment.rows.get(name):
                known, *columns = _sightings(segment.table(name), segment)
                rows.append(((name, segment.folder), known))
                sightings.append([column[known] for column in columns])
    if not rows:
        return AllocationIds({}, 0)
    ids, unreported = _native.allocation_ids(*map(np.concatenate, zip(*sightings, strict=True)))
    of, first = {}, 0
    for key, known in rows:
        of[key] = np.full(len(known), -1, dtype=np.int64)
        end = first + int(np.count_nonzero(known))
        of[key][known], first = ids[first:end], end
    return AllocationIds(of, unreported)


def _sightings(table: Table, segment: RecordingSegment) -> tuple[npt.NDArray[Any], ...]:
    """Columns by row: has a storage; time, tensor, address, device, is a free."""
    kind, index = (table[name].view(np.uint8) for name in ("device_type", "device_index"))
    device = kind.astype(np.uint16) << 8 | index
    if table.schema.name == "allocations":
        known = table["action"] != AllocationAction.OUT_OF_MEMORY
        no_tensor = np.zeros(len(table), dtype=np.uint64)
        return known, table["time_ns"], no_tensor, table["address"], device, table["size_bytes"] < 0
    impl, never = table["impl"], np.zeros(len(table), dtype=np.bool_)
    time_ns = _times(table, segment) if table.schema.name == "tensors" else table["time_ns"]
    return impl != 0, time_ns, impl, table["storage"], device, never


def _times(tensors: Table, segment: RecordingSegment) -> npt.NDArray[np.int64]:
    """Time of each tensor: an input at the start of its event, an output at the end."""
    events = segment.table("events")
    event = tensors["event"].astype(np.int64) - segment.first_event
    # Results of earlier segments' events: their time is the start of this segment.
    began_ns = events["start_ns"][0] if len(events) else segment.account()["end_ns"]
    time_ns = np.full(len(event), began_ns, dtype=np.int64)
    here = (event >= 0) & (event < len(events))
    is_output, event = np.isin(tensors["role"][here], _OUTPUTS), event[here]
    took = np.where(is_output, events["duration_ns"][event], 0)
    time_ns[here] = events["start_ns"][event] + took
    return time_ns


_CALLS = ("python_calls", "operator_calls")


@dataclass
class Merge:
    """A complete recording in segments."""

    segments: Sequence[RecordingSegment]  # all of them
    options: RecordingOptions  # what was recorded
    process: Mapping[str, Any]  # facts about the process
    with_state: Callable[[Decoded], Decoded]  # adds the listeners' facts to decoded tables
    cost: Mapping[str, float]  # measured cost of the recording
    rows: Sequence[Row] = ()  # more rows of the ledger
    counts: dict[str, int] = field(default_factory=dict)  # rows, by name of the table
    _unfinished: int = 0
    _ids: AllocationIds = field(default_factory=lambda: AllocationIds({}, 0))

    def save(self, folder: Path, part: Partition | None, metadata: Mapping[str, Any]) -> Path:
        """Write the trace as one part of ``folder``; returns that part's folder."""

        def write(unfinished: Path, rank: int) -> None:
            if self.options.memory:
                self._ids = allocation_ids(self.segments)
            sizes = self._write_row_groups(unfinished)
            rest = self._rest().with_metadata(metadata)
            for name in [name for name in TABLES if len(rest.table(name))] + ["names"]:
                if name not in GROWING:
                    sizes.update([write_table(rest, name, unfinished)])
            Manifest(sizes, rank).write(unfinished)

        return save_files(folder, part, {**self.process, **metadata}, write)

    def _write_row_groups(self, folder: Path) -> dict[str, dict[str, int]]:
        sizes = {}
        for name in GROWING:
            writer = RowGroupWriter(name, folder)
            for table in self._events() if name == "events" else self._parts(name):
                writer.add(table)
                self.counts[name] = self.counts.get(name, 0) + len(table)
            if (size := writer.close()) is not None:
                sizes[name] = size
        return sizes

    def _parts(self, name: str) -> Iterator[Table]:
        return (self._ids.added_to(one.table(name), one) for one in self.segments)

    def _events(self) -> Iterator[Table]:
        names = Names.joined(segment.names() for segment in self.segments)
        steps, engine = OngoingSteps(names), engine_names(names)
        late = _by_event([segment.late() for segment in self.segments])
        for segment in self.segments:
            events = _amended(segment.table("events"), segment.first_event, late)
            if not len(events):
                continue
            after = self._first_after(segment)
            events = with_engine_links(events, engine, segment.first_event, after)
            self._unfinished += int(np.count_nonzero(events["unfinished"]))
            yield events.replaced({"step": steps.of(events)})

    def _first_after(self, segment: RecordingSegment) -> Table | None:
        later = (s for s in self.segments if s.first_event > segment.first_event)
        found = next((s for s in later if s.rows.get("events")), None)
        return None if found is None else found.table("events").take(np.array([0]))

    def _rest(self) -> TraceData:
        """Everything except the tables written as groups of rows."""
        decoded = self._decoded()
        trace = assemble_trace(decoded, self.options, self.cost, self.process, self.rows)
        ledger = trace.table("ledger")
        added = self._added_to_ledger()
        value = [
            v + added.get((str(s), str(w)), 0)
            for s, w, v in zip(ledger["source"], ledger["what"], ledger["value"], strict=True)
        ]
        ledger = ledger.replaced({"value": np.array(value, dtype=np.float64)})
        return trace.with_tables({"ledger": ledger})

    def _added_to_ledger(self) -> dict[tuple[str, str], int]:
        events, allocations = self.counts.get("events", 0), self.counts.get("allocations", 0)
        return {
            ("events", "requested"): events,
            ("events", "recorded"): events,
            ("events", "unfinished"): self._unfinished,
            ("allocations", "requested"): allocations,
            ("allocations", "recorded"): allocations,
        }

    def _decoded(self) -> Decoded:
        """Tables without events, with one call of each kind."""
        last = self.segments[-1]
        tables = {schema.name: Table(schema, {}) for schema in RECORDED_TABLES}
        for name in tables:
            if name == "threads":
                tables[name] = last.table(name)
            elif name in _CALLS:
                tables[name] = joined([_distinct(part) for part in self._parts(name)], name)
            elif name == "task_runs":
                tables[name] = joined(list(self._task_runs()), name)
            elif name not in GROWING:
                tables[name] = joined(list(self._parts(name)), name)
        account: Any = dict(last.account())
        account["unreported_frees"] = self._ids.unreported_frees
        account["start_ns"] = self.segments[0].account()["start_ns"]
        names = Names.joined(segment.names() for segment in self.segments)
        return self.with_state(Decoded(tables, names, account, no_room=NO_ROOM))

    def _task_runs(self) -> Iterator[Table]:
        """Runs with rows of the joined table of tasks: a task has a row in each of its segments."""
        first = 0
        for segment in self.segments:
            runs = segment.table("task_runs")
            yield runs.replaced({"task": runs["task"] + np.int32(first)})
            first += segment.rows.get("tasks", 0)


def _by_event(parts: Sequence[Late]) -> Late:
    """The newest row of each event, in order of events."""
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    newest_first = {name: column[::-1] for name, column in joined.items()}
    _, rows = np.unique(newest_first["event"], return_index=True)
    return {name: column[rows] for name, column in newest_first.items()}


def _amended(events: Table, first: int, late: Late) -> Table:
    begin, end = np.searchsorted(late["event"], [first, first + len(events)])
    if begin == end:
        return events
    rows = late["event"][begin:end] - first
    changed = {}
    for name in ("parent", "duration_ns", "unfinished", "raised", "is_async"):
        changed[name] = events[name].copy()
        changed[name][rows] = late[name][begin:end]
    return events.replaced(changed)


def _distinct(calls: Table) -> Table:
    """One row for each function and line with a call."""
    if not len(calls):
        return calls
    key = (
        calls["caller"].astype(np.int64) << 32 | calls["caller_line"].astype(np.int64) & 0xFFFFFFFF
    )
    return calls.take(np.unique(key, return_index=True)[1])
