"""A :class:`Trace` from the columns of a Chrome JSON: order, parents, links, launches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.columns.column import DURATION
from opscope.columns.device_rules import check_device_rules
from opscope.columns.ledger import (
    END_MISSING,
    NOT_EXPORTED,
    NOT_SHOWN,
    OVERLAP_NS,
    OVERLAPS,
    WITHOUT_DURATION,
    Doubt,
    doubt_rows,
)
from opscope.columns.metadata_kinds import sound_metadata
from opscope.columns.names import Names
from opscope.columns.nesting import parents_by_nesting, rounding_of
from opscope.columns.schema import UNKNOWN_KIND, EventKind
from opscope.columns.shapes import sound_shapes
from opscope.columns.trace_data import TraceData
from opscope.columns.unknown_codes import with_rows
from opscope.columns.validate import checked_trace
from opscope.errors import UsageError
from opscope.storage.chrome.connections import (
    allocations,
    device_activities,
    launch_doubts,
    links,
    overheads,
    torch_thread_ids,
    unmatched_arrows,
)
from opscope.storage.chrome.devices import hardware_counters, place_on_devices
from opscope.storage.chrome.event_names import add_meaning, python_tables
from opscope.storage.chrome.native_columns import LOOKUP_IDS, CollectedEvents, read_json
from opscope.storage.chrome.plausibility import judge_times, overrun_doubts
from opscope.storage.chrome.processes import processes_in
from opscope.storage.chrome.vocabulary import KEY, TIME_LIMIT, dropped, integer, left_out
from opscope.storage.partition import Partition, listed, several_parts

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Columns = dict[str, Any]

_NESTING_ORDER = np.array([2, 1, 0, 0, 0, 0, 0, 3, *[1] * (UNKNOWN_KIND - EventKind.RUNTIME_CALL)])
"""Nesting order of spans with equal times, by kind: Python outside, then annotations, ..."""

_FIRST_FREE_THREAD_ID = 1 << 48  # above all thread ids of operating systems
_KINETO_THREAD = re.compile(r"thread -?\d+ \((.*)\)$", re.DOTALL)


def load_chrome_trace(path: str | Path, part: Partition | None = None) -> TraceData:
    """Read a Chrome JSON (plain or packed) written by torch.profiler, opscope or another tool.

    The reader takes spans (``X``, ``B``/``E``, asynchronous ``b``/``e``), ``[memory]`` instants,
    device activities, arrows between spans, names of threads and processes and the file's metadata.
    It derives parents from times. ``trace.ledger["import"]`` counts omitted events, and rows that
    opscope's export omitted; ``trace.ledger["doubtful"]`` counts implausible data.

    Args:
        path: path of the file.
        part: the process to load from a file that has several.

    Raises:
        TraceFormatError: the file is missing, damaged or not a Chrome trace.
        UsageError: ``part`` is not in the file, or is None for a file of several processes.
    """
    traces = load_chrome_processes(path)
    if part is None and len(traces) == 1:
        return next(iter(traces.values()))
    parts = [key for key in traces if key is not None]
    if part in parts:
        return traces[part]
    if part is None:
        raise several_parts(Path(path), parts)
    if not parts:
        raise UsageError(
            f"{path} is a single file of one process, so {part.kind}={part.number} means "
            f"nothing. Leave {part.kind} out."
        )
    raise UsageError(f"{path} has no {part}. It contains: {listed(parts)}.")


def load_chrome_processes(path: str | Path) -> dict[Partition | None, TraceData]:
    """The traces of all processes in a Chrome JSON; usually one, under None."""
    path = Path(path)
    reader, file_metadata = read_json(path)
    collector = CollectedEvents(reader)
    del reader
    recorded = file_metadata.pop(KEY, None)
    collector.not_exported.update(left_out(recorded))
    if lost_count := dropped(recorded):
        collector.skipped["when it was recorded"] = lost_count
    metadata, invalid = sound_metadata(file_metadata)
    collector.skipped.update(f"metadata {key[:40]!r} of another kind" for key in invalid)
    base = integer(metadata.get("baseTimeNanoseconds"), 0, 0, TIME_LIMIT)
    metadata["imported_from"] = path.name
    if collector.processes:
        names = {str(key): name for key, name in collector.processes.items()}
        metadata["process_names"] = names
    place_on_devices(collector)
    return {
        part: _trace_of(events_of_part, base, metadata, str(path))
        for part, events_of_part in processes_in(collector, str(path)).items()
    }


def _trace_of(
    collector: CollectedEvents, base: int, metadata: Mapping[str, Any], source: str
) -> TraceData:
    judge_times(collector)
    if counters := hardware_counters(collector, base):
        metadata = {**metadata, "hardware_counters": counters}
    trace = checked_trace(_assemble(collector, base, metadata), source)
    rules = check_device_rules(trace)
    rows = {("device rules", what): float(value) for what, value in rules.ledger.items()}
    if not rules.work:
        rows = {}
    rows |= {(source_name, what): value for source_name, what, value in doubt_rows(rules.doubts)}
    return trace.with_tables({"ledger": with_rows(trace.table("ledger"), rows)}) if rows else trace


def _assemble(collector: CollectedEvents, base: int, metadata: Mapping[str, Any]) -> TraceData:
    events, order = _events(collector, base)
    new_row = np.empty(len(order), dtype=np.int32)
    new_row[order] = np.arange(len(order), dtype=np.int32)
    nested = (events["thread"], events["start_ns"], events["end_ns"], events["parent"])
    python = python_tables(events, collector.texts, collector.intern)
    tables = {
        **python,
        "tensors": _tensors(collector, new_row),
        "scalars": _by_event(collector.scalars, new_row)[0],
        "allocations": allocations(collector, base, nested),
        "gpu": device_activities(collector, base, events),
        "gpu_overheads": overheads(collector, base),
        "links": links(collector, base, nested),
        "threads": _threads(collector, events),
    }
    doubts = [
        *collector.doubts,
        *launch_doubts(tables["gpu"], events, collector.texts),
        *overrun_doubts(events),
    ]
    for name in ("process", "counters"):
        tables["gpu"].pop(name)
    tables["ledger"] = _ledger(collector, len(order), doubts)
    for name in ("end_ns", "overlap_ns", *LOOKUP_IDS):
        events.pop(name)
    tables["events"] = events
    return TraceData(tables, Names.from_strings(collector.texts), metadata)


def _events(collector: CollectedEvents, base: int) -> tuple[Columns, Int64]:
    """The columns of ``events`` in start order with lookup ids, and that order."""
    spans = collector.spans
    last = int(np.max(spans["start_ns"] + spans["duration_ns"], initial=0))
    open_ended = spans["unfinished"] == 1
    until_last = last - spans["start_ns"][open_ended]
    spans["duration_ns"][open_ended] = np.clip(until_last, 0, DURATION["most"])
    rounding_ns = rounding_of(spans["start_ns"], spans["duration_ns"])
    spans["start_ns"] += base
    outer = _NESTING_ORDER[spans["kind"]]
    order = np.lexsort((outer, -spans["duration_ns"], spans["start_ns"]))
    events: Columns = {name: spans.pop(name)[order] for name in list(spans)}
    events["end_ns"] = events["start_ns"] + events["duration_ns"]
    _nest(events, rounding_ns)
    collector.count_overlaps(events["overlap_ns"])
    add_meaning(events, collector)
    return events, order


def _nest(events: Columns, rounding_ns: int) -> None:
    """Set parents from times, and the overlap of each span with others of its thread.

    Spans that the file marks as asynchronous have no parent.
    """
    events["is_async"] = is_async = events["is_async"] == 1
    rows = np.flatnonzero(~is_async) if is_async.any() else slice(None)
    thread, start, end = (events[name][rows] for name in ("thread", "start_ns", "end_ns"))
    parent, overlap_ns = parents_by_nesting(thread, start, end, rounding_ns)
    _move_empty_spans(parent, events["name"][rows], start == end)
    if isinstance(rows, slice):
        events["parent"], events["overlap_ns"] = parent, overlap_ns
        return
    events["parent"] = np.full(len(is_async), -1, dtype=np.int32)
    events["parent"][rows] = np.where(parent >= 0, rows[parent], -1)
    events["overlap_ns"] = np.zeros(len(is_async), dtype=np.int64)
    events["overlap_ns"][rows] = overlap_ns


def _move_empty_spans(parent: Int32, name: Int32, is_empty: npt.NDArray[np.bool_]) -> None:
    """Move spans without length out of calls of the same name, with which they would be merged."""
    rows = np.flatnonzero(is_empty & (parent >= 0))
    while len(rows := rows[(parent[rows] >= 0) & (name[parent[rows]] == name[rows])]):
        parent[rows] = parent[parent[rows]]


def _by_event(columns: Columns, new_row: Int32) -> tuple[Columns, Int64]:
    """Rows with an event number of the file, renumbered and sorted like the events."""
    event = new_row[columns.pop("event")]
    order = np.argsort(event, kind="stable")
    sorted_columns = {name: columns.pop(name)[order] for name in list(columns)}
    return {"event": event[order], **sorted_columns}, order


def _tensors(collector: CollectedEvents, new_row: Int32) -> Columns:
    lists = (collector.tensors.pop(name) for name in ("sizes", "strides"))
    sizes, strides = sound_shapes(*lists)
    columns, order = _by_event(collector.tensors, new_row)
    columns["sizes"] = sizes.take(order)
    del sizes
    return {**columns, "strides": strides.take(order)}


def _threads(collector: CollectedEvents, events: Columns) -> Columns:
    several = len({process for process, _ in collector.threads}) > 1
    names = []
    for key, name in zip(collector.threads, collector.thread_names, strict=True):
        match = _KINETO_THREAD.match(name)
        recorded = match[1] if match else name
        names.append(f"{recorded} (process {key[0]})" if several else recorded)
    return {
        "system_thread_id": _thread_numbers(collector),
        "torch_thread_id": torch_thread_ids(events, len(collector.threads)),
        "name": [collector.intern(name) if name else -1 for name in names],
    }


def _thread_numbers(collector: CollectedEvents) -> list[int]:
    """A distinct id per thread: two processes may have equal ids, and names are not numbers."""
    numbers: dict[int, None] = {}
    free_ids = count(_FIRST_FREE_THREAD_ID)
    for _, thread in collector.threads:
        number = integer(thread)
        while number in numbers:
            number = next(free_ids)
        numbers[number] = None
    return list(numbers)


def _ledger(collector: CollectedEvents, spans: int, doubts: list[Doubt]) -> Columns:
    rows: list[tuple[str, str, float]] = [
        ("events", "recorded", spans),
        ("allocations", "recorded", len(collector.allocations["thread"])),
        ("gpu", "recorded", len(collector.gpu["kind"])),
        ("import", "events in the file", collector.seen),
    ]
    if collector.marks:
        rows.append(
            ("import", "internal events of the profiler that wrote the file", collector.marks)
        )
    if collector.without_duration:
        rows.append(("import", WITHOUT_DURATION, collector.without_duration))
    if collector.overlaps:
        rows.append(("import", OVERLAPS, collector.overlaps))
        rows.append(("import", OVERLAP_NS, collector.overlap_ns))
    lost = unmatched_arrows(collector)
    if lost:
        collector.skipped["arrows to device activity that is not in the file"] += lost
    if collector.mended:
        rows.append(("import", "names with unescaped quotes, repaired", collector.mended))
    if collector.is_cut:
        rows.append(("import", END_MISSING, 1))
    rows += [("import", f"dropped: {why}", n) for why, n in sorted(collector.skipped.items())]
    rows += [("import", f"{NOT_SHOWN}{what}", n) for what, n in sorted(collector.not_shown.items())]
    rows += [("import", NOT_EXPORTED + name, n) for name, n in collector.not_exported.items()]
    rows += doubt_rows(doubts)
    source, what, value = zip(*rows, strict=True)
    return {"source": list(source), "what": list(what), "value": list(value)}
