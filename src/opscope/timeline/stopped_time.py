"""Removes the stops (SIGSTOP) of a program from the times of its trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from opscope.columns.schema import TABLES
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Values

_MOMENTS = ("start_ns", "end_ns")
"""Moments in the metadata."""


def without_stops(trace: TraceData, stops: Sequence[tuple[int, int]]) -> TraceData:
    """The trace with all times after a stop moved back by its length; ``trace`` without stops.

    Times within a stop move to its start.

    Args:
        trace: a recording.
        stops: start and end of each stop, in order, Unix nanoseconds.
    """
    if not stops:
        return trace
    begin, end = np.array(stops, dtype=np.int64).T
    lost = np.concatenate([[0], np.cumsum(end - begin)])

    def moved(time_ns: Values) -> Values:
        before = np.searchsorted(begin, time_ns, side="right")
        in_stop = np.maximum(end[np.maximum(before - 1, 0)] - time_ns, 0) * (before > 0)
        return np.asarray(time_ns - lost[before] + in_stop, dtype=np.int64)

    metadata = trace.metadata
    times = {key: int(moved(np.array(metadata[key]))) for key in _MOMENTS if key in metadata}
    tables = {name: _moved(trace.table(name), moved) for name in TABLES if name != "metadata"}
    return trace.with_tables(tables).with_metadata(times)


def _moved(table: Table, moved: Callable[[Values], Values]) -> Table:
    columns = {name: moved(table[name]) for name in ("start_ns", "time_ns") if table.has(name)}
    if "start_ns" in columns:
        ends = moved(table["start_ns"] + table["duration_ns"])
        columns["duration_ns"] = ends - columns["start_ns"]
    return table.replaced(columns) if columns else table
