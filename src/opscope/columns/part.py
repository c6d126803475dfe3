"""The part of a trace between two times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.columns.schema import TABLES
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData

Values = npt.NDArray[np.int64]

_HANDLED_SEPARATELY = ("events", "metadata", "ledger")
_SPANS = ("gpu",)  # tables besides events whose rows have a duration, and are clipped to the part
_COUNTERS = "thread_samples"
"""Table of counter readings; its data is about the time between two rows."""

LATEST_NS = int(np.iinfo(np.int64).max)
_EARLIEST_NS = int(np.iinfo(np.int64).min)


@dataclass(frozen=True)
class Part:
    """Part of a trace.

    Attributes:
        trace: the part; events are clipped to its begin and end.
        rows: row in the whole trace of each event of the part. Shape (events,).
    """

    trace: TraceData
    rows: Values


def part_from(
    trace: TraceData,
    begin_ns: int,
    end_ns: int = LATEST_NS,
    kept: tuple[npt.NDArray[np.bool_], Values] | None = None,
) -> Part:
    """Everything that ends after ``begin_ns`` and begins before ``end_ns``, Unix nanoseconds.

    ``kept``: which events stay, and each event's nearest kept ancestor or -1. Shapes (events,).
    """
    events = trace.events
    start = events["start_ns"].astype(np.int64)
    end = start + events["duration_ns"]
    within = ((end > begin_ns) | (start >= begin_ns)) & (start < end_ns)
    rows = np.flatnonzero(within if kept is None else within & kept[0])
    parent = events["parent"] if kept is None else kept[1]
    new_row = np.full(len(start) + 1, -1, dtype=np.int32)
    new_row[rows] = np.arange(len(rows), dtype=np.int32)
    begins = np.maximum(start[rows], begin_ns)
    changed = {
        "parent": new_row[parent[rows]],
        "start_ns": begins,
        "duration_ns": np.minimum(end[rows], end_ns) - begins,
    }
    others = {name: column for name, column in events.given.items() if name not in changed}
    tables: dict[str, Any] = {"events": Table(events.schema, others).take(rows).replaced(changed)}
    for name in TABLES:
        if name not in _HANDLED_SEPARATELY:
            tables[name] = part_of(trace.table(name), new_row.__getitem__, begin_ns, end_ns)
    tables["ledger"] = trace.table("ledger")
    return Part(type(trace)(tables, trace.names, trace.metadata), rows.astype(np.int64))


def without(
    trace: TraceData, events: npt.NDArray[np.bool_], threads: npt.NDArray[np.bool_]
) -> TraceData:
    """Copy of a trace without some outermost events and some threads.

    Args:
        events: events to omit, shape (events,); an omitted event has no ancestor that stays.
        threads: threads to omit, shape (threads,); the table itself stays.
    """
    kept = ~(events | np.append(threads, False)[trace.events["thread"]])  # -1 is no thread
    parent = trace.events["parent"].astype(np.int64)
    around = np.where(np.append(kept, False)[parent], parent, -1)
    part = part_from(trace, _EARLIEST_NS, LATEST_NS, (kept, around))
    readings = part.trace.table(_COUNTERS)
    numbers = trace.table("threads")["system_thread_id"][threads]
    others = np.flatnonzero(~np.isin(readings["system_thread_id"], numbers))
    return part.trace.with_tables({_COUNTERS: readings.take(others)})


def part_of(table: Table, renumber: Callable[[Any], Any], begin_ns: int, end_ns: int) -> Table:
    """Rows of a table about events in a part, and about times in it.

    The last counter reading before the part and the first after it stay: they cover its edges.

    Args:
        renumber: rows of events in the whole trace to rows in the part; -1 for others.
        begin_ns: begin of the part, Unix nanoseconds.
    """
    if not len(table):
        return table
    keep = np.ones(len(table), dtype=np.bool_)
    numbers = {
        column.name: renumber(table[column.name])
        for column in table.schema.columns
        if column.refers == "events"
    }
    for name, new in numbers.items():
        if table.schema.column(name).default != -1:
            keep &= new >= 0
    for time in ("time_ns", "start_ns"):
        if table.schema.name != "parameters" and any(
            column.name == time for column in table.schema.columns
        ):
            ends = table[time] + (table["duration_ns"] if table.schema.name in _SPANS else 0)
            keep &= ((table[time] >= begin_ns) | (ends > begin_ns)) & (table[time] < end_ns)
    if table.schema.name == _COUNTERS:
        keep |= _around(table, begin_ns, end_ns)
    rows = np.flatnonzero(keep)
    changed: dict[str, Any] = {name: new[rows].astype(np.int32) for name, new in numbers.items()}
    if table.schema.name in _SPANS:
        start, took = table["start_ns"][rows], table["duration_ns"][rows]
        changed["start_ns"] = np.maximum(start, begin_ns)
        changed["duration_ns"] = np.minimum(start + took, end_ns) - changed["start_ns"]
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1:  # consecutive
        return table.between(int(rows[0]), int(rows[-1]) + 1).replaced(changed)
    return table.take(rows).replaced(changed)


def _around(readings: Table, begin_ns: int, end_ns: int) -> npt.NDArray[np.bool_]:
    """Which readings are the last of their thread before a part, or the first after it."""
    order = np.lexsort((readings["time_ns"], readings["system_thread_id"]))
    thread, time_ns = readings["system_thread_id"][order], readings["time_ns"][order]
    same = thread[1:] == thread[:-1]
    is_edge = np.zeros(len(order), dtype=np.bool_)
    is_edge[order[:-1]] = same & (time_ns[:-1] < begin_ns) & (time_ns[1:] >= begin_ns)
    is_edge[order[1:]] |= same & (time_ns[:-1] < end_ns) & (time_ns[1:] >= end_ns)
    return is_edge
