"""Summary of a recording larger than memory: sums by name over slices."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from opscope.analysis.top_operators import COLUMNS, SORT_KEYS, TopOperators, find_top_operators
from opscope.base.quantity_text import time_text
from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError
from opscope.storage.long_trace import LongTrace, Slice
from opscope.timeline.period import Period, Which
from opscope.timeline.steady_state import StartUp

_SLICE_EVENTS = 500_000
_COLUMNS = (
    *("name", "kind", "thread", "parent", "start_ns", "duration_ns"),
    *("is_async", "unfinished"),
)
"""Columns of events that times by name need."""
_TIMES = ("calls", "cpu_self_ns", "cpu_total_ns")  # columns that are summed over slices


def find_long_top_operators(
    trace: LongTrace, *, sort_by: str, row_limit: int, by_shape: bool = False
) -> TopOperators:
    """Summarise calls and CPU times of a long recording; see `find_top_operators`."""
    column = SORT_KEYS[sort_by]
    if by_shape or column.unit not in ("ns", "count") or column.key.startswith("device"):
        raise UsageError(
            "This recording is so long that only calls and CPU times are summarised. Choose a "
            "part with --range or --steps for everything else."
        )
    working: dict[str, Counter[str]] = {}
    waiting: dict[str, Counter[str]] = {}
    begin_ns, end_ns = trace.span_ns
    for part in trace.slices(_SLICE_EVENTS, _COLUMNS):
        _add(part, working, waiting)
    rows, waits = _rows(working, column.key), _rows(waiting, column.key)
    shown = len(rows) if row_limit == -1 else row_limit
    return TopOperators(
        rows=rows[:shown],
        waiting=waits,
        left_out=max(len(rows) - shown, 0),
        total_cpu_ns=sum(row["cpu_self_ns"] for row in [*rows, *waits]),
        period=_period(TraceData({}, trace.small.names), begin_ns, end_ns),
        used=tuple(c for c in COLUMNS if c.key in (*_TIMES, "cpu_mean_ns")),
        sorted_by=column,
    )


def _add(part: Slice, working: dict[str, Counter[str]], waiting: dict[str, Counter[str]]) -> None:
    """Add the calls and times of a slice; a call counts in the slice in which it began."""
    period = _period(part.trace, part.begin_ns, part.end_ns)
    top = find_top_operators(period, sort_by="self_cpu_time_total", row_limit=-1)
    for rows, sums in ((top.rows, working), (top.waiting, waiting)):
        for row in rows:
            # A slice of an imported file may have no times.
            times = {key: row[key] or 0 for key in _TIMES}
            sums.setdefault(row["name"], Counter()).update(times)
    if part.carried:
        events = part.trace.events.take(np.arange(part.carried))
        alone = _period(part.trace.with_tables({"events": events}), part.begin_ns, part.end_ns)
        before = find_top_operators(alone, sort_by="self_cpu_time_total", row_limit=-1)
        for rows, sums in ((before.rows, working), (before.waiting, waiting)):
            for row in rows:
                sums[row["name"]]["calls"] -= row["calls"]


def _rows(sums: dict[str, Counter[str]], sorted_by: str) -> list[dict[str, Any]]:
    rows = []
    for name, added in sums.items():
        row: dict[str, Any] = {"name": name} | {column.key: 0 for column in COLUMNS}
        row |= dict(added)
        row["cpu_mean_ns"] = row["cpu_total_ns"] // max(row["calls"], 1)
        rows.append(row)
    return sorted(rows, key=lambda row: -row[sorted_by])


def _period(trace: TraceData, begin_ns: int, end_ns: int) -> Period:
    title = f"recording, {time_text(end_ns - begin_ns)}"
    return Period(Which.ALL, trace, None, begin_ns, end_ns, StartUp(), title)
