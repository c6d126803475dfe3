"""Own time: every instant of a thread belongs to the innermost span that was running then.

That is the one that began last (:mod:`opscope.timeline.tree.line_nesting`), so the own times of a
thread add up to the time in its spans, however those overlap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.columns.row_groups import order_rows
from opscope.columns.trace_data import TraceData
from opscope.timeline.tree.event_tree import event_tree
from opscope.timeline.tree.line_nesting import line_nesting

Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def own_times(trace: TraceData) -> Values:
    """Nanoseconds of every event, shape (events,); the same array for the same trace."""
    return line_nesting(trace).own_ns


def outermost_of(
    trace: TraceData, events: Values, group: npt.NDArray[np.signedinteger[Any]]
) -> Flags:
    """Which of ``events`` do not run, by time, within another of them of their thread and group.

    Shape (events,), as ``group``. A function that calls itself is one stretch of time, however
    deep.
    """
    start = event_tree(trace).start_ns[events]
    end = line_nesting(trace).until_ns[events]
    if not len(start):
        return np.zeros(0, dtype=np.bool_)
    key = group.astype(np.int64) * len(trace.table("threads")) + trace.events["thread"][events]
    order = _by_start(start)
    order = order[order_rows(key[order])]
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = np.diff(key[order]) != 0
    # Every group gets a stretch of its own, so that one running maximum serves them all.
    origin = int(start.min())
    shift = (np.cumsum(begins) - 1) * (int(end.max()) - origin + 1)
    reached = np.maximum.accumulate(end[order] - origin + shift)
    result = np.ones(len(order), dtype=np.bool_)
    result[order[1:]] = begins[1:] | ((start[order] - origin + shift)[1:] >= reached[:-1])
    return result


def _by_start(start_ns: Values) -> Values:
    """Rows in order of start; of equal ones in their own."""
    in_order = bool((start_ns[1:] >= start_ns[:-1]).all())
    return np.arange(len(start_ns)) if in_order else np.argsort(start_ns, kind="stable")
