"""Several processes of one folder as one trace, on one clock, for timelines that show them all.

Ids that are unique only within a process are made unique (threads, tensors). Memory is left out,
because an address means another block in another process.
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

SOURCE = "processes"  # source name in the ledger of a merged trace
_LEFT_OUT = ("allocations", "parameters", "gpu_memory", "ledger", "metadata")
_TIMES = ("start_ns", "time_ns", "queued_ns", "submitted_ns")
_TENSOR_STEP, _THREAD_STEP = 1 << 40, 1_000_000
"""Distance of the ids of two processes; torch counts threads from 1."""
_COUNTED = ("requested", "recorded", "dropped")


def traces_together(processes: Sequence[tuple[ProcessEntry, TraceData]]) -> TraceData:
    """Merged trace of a job's processes, on the clock of the first one's machine."""
    numbers = _process_numbers(processes)
    parts = [entry.partition or Partition(PROCESS, number) for (entry, _), number in
             zip(processes, numbers, strict=True)]  # fmt: skip
    traces = [trace for _, trace in processes]
    collectives = job_collectives(zip(parts, traces, strict=True), with_exposed=False)
    short = [_short_name(entry, n) for (entry, _), n in zip(processes, numbers, strict=True)]
    names = [process_name(entry, trace.metadata) for entry, trace in processes]
    return _merged(traces, numbers, short, names, collectives)


def versions_together(traces: Sequence[TraceData], names: Sequence[str]) -> TraceData:
    """Merged trace of recordings of several versions; times and collectives do not change."""
    numbers = _process_numbers([(ProcessEntry(0), trace) for trace in traces])
    return _merged(traces, numbers, names, names, _no_collectives(len(traces)))


def _no_collectives(count: int) -> JobCollectives:
    one_machine = machines_of([{"host_name": SOURCE}] * count, [SOURCE] * count)
    return replace(job_collectives([]), clocks=one_machine)


def _merged(
    traces: Sequence[TraceData],
    numbers: list[int],
    short: Sequence[str],
    names: Sequence[str],
    collectives: JobCollectives,
) -> TraceData:
    """Merge traces; ``short`` are prefixes of thread names, ``names`` process names."""
    moved = [
        _tables_of(trace, place, numbers[place], short[place], collectives.clocks)
        for place, trace in enumerate(traces)
    ]
    joined = concat_traces(moved)
    joined = joined.with_tables({"links": _with_arrows(joined.table("links"), traces, collectives)})
    tables = {**in_order_of_start(joined), "ledger": _ledger(traces, collectives)}
    return TraceData(tables, joined.names, _metadata(traces, numbers, names, collectives.clocks))


def _with_arrows(links: Table, traces: Sequence[TraceData], collectives: JobCollectives) -> Table:
    """Links with arrows between ranks; event rows are as in the traces, one after the other."""
    first = np.cumsum([0, *(len(trace.events) for trace in traces)])
    row = collectives.event + first[collectives.process]
    source, target = row[collectives.arrows()]
    kind = np.full(len(source), LinkKind.COLLECTIVE)
    new = {"kind": kind, "source": source, "target": target}
    return Table(
        TABLES["links"],
        {name: np.concatenate([links[name], values]) for name, values in new.items()},
    )


def _process_numbers(processes: Sequence[tuple[ProcessEntry, TraceData]]) -> list[int]:
    """Id of each process, or a new number if it is unknown or taken (on another host)."""
    numbers: list[int] = []
    for entry, trace in processes:
        number = int(trace.metadata.get("process_id", entry.process_id))
        while number <= 0 or number in numbers:
            number = max(number, 0) + AGAIN
        numbers.append(number)
    return numbers


def _short_name(entry: ProcessEntry, number: int) -> str:
    part = entry.partition
    return str(part) if part is not None and part.kind == RANK else f"process {number}"


def _tables_of(trace: TraceData, place: int, process: int, short: str, clocks: Clocks) -> TraceData:
    """Tables of one process, with times, threads and tensors that are unique in the result."""
    tables: dict[str, Any] = {
        name: _with_times(trace.table(name), partial(clocks.on_one, place))
        for name in TABLES
        if name not in _LEFT_OUT
    }
    events, threads = tables["events"], trace.table("threads")
    tables["events"] = events.replaced(
        {
            column: _shifted_ids(events[column], place * _THREAD_STEP)
            for column in ("forward_thread", "launch_thread")
        }
    )
    names, labels = _thread_names(trace, short)
    tables["threads"] = threads.replaced(
        {
            "torch_thread_id": _shifted_ids(threads["torch_thread_id"], place * _THREAD_STEP),
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
    """The trace with ``by_ns`` added to all times."""
    tables = {name: _with_times(trace.table(name), lambda time: time + by_ns) for name in TABLES}
    bounds = {key: trace.metadata.get(key) for key in ("start_ns", "end_ns")}
    facts = {key: value + by_ns for key, value in bounds.items() if isinstance(value, int)}
    return trace.with_tables(tables).with_metadata(facts)


def _with_times(table: Table, moved: Callable[[Values], Values]) -> Table:
    """Table with converted times; 0 means not measured, and stays."""
    times = [column.name for column in table.schema.columns if column.name in _TIMES]
    if not times or not len(table):
        return table
    return table.replaced({one: np.where(table[one] == 0, 0, moved(table[one])) for one in times})


def _shifted_ids(numbers: npt.NDArray[Any], offset: int) -> npt.NDArray[Any]:
    """Ids that no other process has; 0 means none, and stays."""
    return np.where(numbers == 0, numbers, numbers + offset).astype(numbers.dtype)


def _thread_names(trace: TraceData, short: str) -> tuple[Names, Rows]:
    """The trace's names with new ones for its threads, and the name of each thread."""
    threads = trace.table("threads")
    old = [trace.names[row] if row >= 0 else "" for row in threads["name"].tolist()]
    new = [f"{short}: {name or 'thread'}" for name in old]
    names = trace.names.followed_by(Names.from_strings(new))
    rows = np.arange(len(trace.names), len(trace.names) + len(new), dtype=np.int32)
    return names, rows


def _ledger(traces: Sequence[TraceData], collectives: JobCollectives) -> Table:
    """Sums of requested, recorded and dropped events over all processes, and omitted data."""
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
    """Displayed name of a process: its rank or parent, and its program."""
    program = os.path.basename(str(about.get("program") or "")) or "python"
    part, job = entry.partition, about.get("distributedInfo")
    if part is not None and part.kind == RANK:
        program = f"{part}: {program}"
    elif isinstance(job, dict) and "rank" in job:
        program = f"rank {job['rank']}: {program}"
    elif part is not None:
        program = f"{part}: {program}"
    return f"{program}, forked by {entry.parent_id}" if entry.how_begun == "forked" else program
