"""Several processes of one folder as one trace, on one clock: for timelines that show them all.

What only means something within a process is made different for each (threads, identities of
tensors) or left out (memory: the same address is another block in another process).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.columns.codes import LinkKind
from opscope.columns.concat import concat_traces, in_order_of_start
from opscope.columns.ledger import DOUBTFUL, LONGEST_NS
from opscope.columns.names import Names
from opscope.columns.schema import TABLES
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.jobs.clocks import Clocks, machines_of
from opscope.jobs.collectives import JobCollectives, job_collectives
from opscope.storage.partition import PROCESS, RANK, Partition
from opscope.storage.processes import AGAIN, ProcessEntry
from opscope.timeline.arrays import Rows, Values
from opscope.timeline.window import window_of

SOURCE = "processes"
"""What the ledger of such a trace calls it."""

_LEFT_OUT = ("allocations", "parameters", "gpu_memory", "ledger", "metadata")
_TIMES = ("start_ns", "time_ns", "queued_ns", "submitted_ns")
_TENSOR_STEP, _THREAD_STEP = 1 << 40, 1_000_000
"""Between the ids of two processes. torch counts threads from 1."""
_COUNTED = ("requested", "recorded", "dropped")


def traces_together(found: Sequence[tuple[ProcessEntry, TraceData]]) -> TraceData:
    """Processes of a job as one; the clock is the first one's machine's."""
    numbers = _process_numbers(found)
    parts = [entry.partition or Partition(PROCESS, number) for (entry, _), number in
             zip(found, numbers, strict=True)]  # fmt: skip
    traces = [trace for _, trace in found]
    collectives = job_collectives(zip(parts, traces, strict=True), with_exposed=False)
    short = [_short_name(entry, n) for (entry, _), n in zip(found, numbers, strict=True)]
    names = [process_name(entry, trace.metadata) for entry, trace in found]
    return _together(traces, numbers, short, names, collectives)


def versions_together(traces: Sequence[TraceData], names: Sequence[str]) -> TraceData:
    """Recordings of versions of a program as one; times and collectives are left as they are."""
    numbers = _process_numbers([(ProcessEntry(0), trace) for trace in traces])
    return _together(traces, numbers, names, names, _apart_from_others(len(traces)))


def _apart_from_others(count: int) -> JobCollectives:
    one_machine = machines_of([{"host_name": SOURCE}] * count, [SOURCE] * count)
    return replace(job_collectives([]), clocks=one_machine)


def _together(
    traces: Sequence[TraceData],
    numbers: list[int],
    short: Sequence[str],
    names: Sequence[str],
    collectives: JobCollectives,
) -> TraceData:
    """``short``: what each is called on its threads; ``names``: as a process."""
    moved = [
        _of_one(trace, place, numbers[place], short[place], collectives.clocks)
        for place, trace in enumerate(traces)
    ]
    joined = concat_traces(moved)
    joined = joined.with_tables({"links": _with_arrows(joined.table("links"), traces, collectives)})
    tables = {**in_order_of_start(joined), "ledger": _ledger(traces, collectives)}
    return TraceData(tables, joined.names, _metadata(traces, numbers, names, collectives.clocks))


def _with_arrows(links: Table, traces: Sequence[TraceData], collectives: JobCollectives) -> Table:
    """With those between ranks; rows of events are as in the traces, one after the other."""
    first = np.cumsum([0, *(len(trace.events) for trace in traces)])
    row = collectives.event + first[collectives.process]
    source, target = row[collectives.arrows()]
    kind = np.full(len(source), LinkKind.COLLECTIVE)
    new = {"kind": kind, "source": source, "target": target}
    return Table(
        TABLES["links"],
        {name: np.concatenate([links[name], values]) for name, values in new.items()},
    )


def _process_numbers(found: Sequence[tuple[ProcessEntry, TraceData]]) -> list[int]:
    """The id of each process, or a number that none has where it is unknown or of two: processes
    of two hosts may have the same."""
    numbers: list[int] = []
    for entry, trace in found:
        number = int(trace.metadata.get("process_id", entry.process_id))
        while number <= 0 or number in numbers:
            number = max(number, 0) + AGAIN
        numbers.append(number)
    return numbers


def _short_name(entry: ProcessEntry, number: int) -> str:
    part = entry.partition
    return str(part) if part is not None and part.kind == RANK else f"process {number}"


def _of_one(trace: TraceData, place: int, process: int, of: str, clocks: Clocks) -> TraceData:
    """One process's tables, with times, threads and tensors that fit beside those of others."""
    tables: dict[str, Any] = {
        name: _at_other_times(trace.table(name), partial(clocks.on_one, place))
        for name in TABLES
        if name not in _LEFT_OUT
    }
    events, threads = tables["events"], trace.table("threads")
    tables["events"] = events.replaced(
        {
            column: _apart(events[column], place * _THREAD_STEP)
            for column in ("forward_thread", "launch_thread")
        }
    )
    names, labels = _thread_names(trace, of)
    tables["threads"] = threads.replaced(
        {
            "torch_thread_id": _apart(threads["torch_thread_id"], place * _THREAD_STEP),
            "process_id": np.full(len(threads), process, dtype=np.int64),
            "name": labels,
        }
    )
    tensors = tables["tensors"]
    ids = tensors["tensor_id"]
    tables["tensors"] = tensors.replaced(
        {
            "tensor_id": np.where(ids < 0, ids, ids + place * _TENSOR_STEP),
            "allocation_id": np.full(len(tensors), -1, dtype=np.int64),
        }
    )
    return TraceData(tables, names, {})


def moved_by(trace: TraceData, by_ns: int) -> TraceData:
    """The trace with all its times later by so much."""
    tables = {
        name: _at_other_times(trace.table(name), lambda time: time + by_ns) for name in TABLES
    }
    bounds = {key: trace.metadata.get(key) for key in ("start_ns", "end_ns")}
    facts = {key: value + by_ns for key, value in bounds.items() if isinstance(value, int)}
    return trace.with_tables(tables).with_metadata(facts)


def _at_other_times(table: Table, moved: Callable[[Values], Values]) -> Table:
    """0 stays what it means: not measured."""
    times = [column.name for column in table.schema.columns if column.name in _TIMES]
    if not times or not len(table):
        return table
    return table.replaced({one: np.where(table[one] == 0, 0, moved(table[one])) for one in times})


def _apart(numbers: npt.NDArray[Any], by: int) -> npt.NDArray[Any]:
    """Ids that no other process has; 0 stays what it means: none."""
    return np.where(numbers == 0, numbers, numbers + by).astype(numbers.dtype)


def _thread_names(trace: TraceData, of: str) -> tuple[Names, Rows]:
    """The trace's names and new ones for its threads, and which thread has which."""
    threads = trace.table("threads")
    old = [trace.names[row] if row >= 0 else "" for row in threads["name"].tolist()]
    new = [f"{of}: {name or 'thread'}" for name in old]
    names = trace.names.followed_by(Names.from_strings(new))
    rows = np.arange(len(trace.names), len(trace.names) + len(new), dtype=np.int32)
    return names, rows


def _ledger(traces: Sequence[TraceData], collectives: JobCollectives) -> Table:
    """Sums of requested, recorded and dropped events over all processes, and the number of hidden
    ones."""
    rows: dict[tuple[str, str], float] = {}
    for trace in traces:
        for source, counts in trace.ledger.items():
            for what, value in counts.items():
                if source == DOUBTFUL and what.endswith(LONGEST_NS):
                    rows[source, what] = max(rows.get((source, what), 0.0), value)
                elif source == DOUBTFUL or what.startswith(_COUNTED):
                    rows[source, what] = rows.get((source, what), 0.0) + value
    rows[SOURCE, "shown together"] = float(len(traces))
    left_out = sum(len(trace.table("allocations")) for trace in traces)
    if left_out:
        rows[SOURCE, "left out: memory of single processes (allocations)"] = float(left_out)
    for why, count in collectives.unmatched.items():
        if count:
            rows[SOURCE, f"collectives without an arrow: {why}"] = float(count)
    if unknown := len(collectives.clocks.unknown):
        rows[SOURCE, "machines whose clocks could not be aligned"] = float(unknown)
    sources, whats = [source for source, _ in rows], [what for _, what in rows]
    columns = {"source": sources, "what": whats, "value": list(rows.values())}
    return Table(TABLES["ledger"], columns)


def _metadata(
    traces: Sequence[TraceData], numbers: Sequence[int], names: Sequence[str], clocks: Clocks
) -> dict[str, Any]:
    first, own = traces[0].metadata, ("distributedInfo", "ended", "trace_id", "user")
    shared = {key: value for key, value in first.items() if key not in own}
    bounds: list[tuple[int, int]] = []
    for place, trace in enumerate(traces):
        about, inside = trace.metadata, window_of(trace, {})
        start_ns = about.get("start_ns", inside.start_ns)
        end_ns = about.get("end_ns", inside.end_ns)
        start_ns, end_ns = clocks.on_one(place, np.array([start_ns, end_ns])).tolist()
        bounds.append((start_ns, end_ns))
    return {
        **shared,
        "start_ns": min(start for start, _ in bounds),
        "end_ns": max(end for _, end in bounds),
        "process_names": dict(zip(map(str, numbers), names, strict=True)),
    }


def process_name(entry: ProcessEntry, about: dict[str, Any]) -> str:
    """Name of a process in a picture: its rank or parent, and its program."""
    program = os.path.basename(str(about.get("program") or "")) or "python"
    part, job = entry.partition, about.get("distributedInfo")
    if part is not None and part.kind == RANK:
        program = f"{part}: {program}"
    elif isinstance(job, dict) and "rank" in job:
        program = f"rank {job['rank']}: {program}"
    elif part is not None:
        program = f"{part}: {program}"
    return f"{program}, forked by {entry.parent_id}" if entry.how_begun == "forked" else program
