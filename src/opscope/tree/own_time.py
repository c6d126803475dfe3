"""Own time: every instant of a thread belongs to the innermost span that was running then.

By their recorded parents some instants would count twice: an annotation begins within the Python
call that opens it and outlives that, so that what it contains is not among its children. Here spans
nest by time, on the lines that :mod:`opscope.tree.timeline` places them on, as in every picture of
a timeline. What had to leave the line of its thread for overlapping others has no own time, because
nobody knows what of it is its own. So the own times of a thread add up to the time in its spans.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.cached_property import cached_property
from opscope.trace.part import Part
from opscope.trace.row_groups import order_rows
from opscope.trace.trace import Trace
from opscope.tree.event_tree import event_tree
from opscope.tree.timeline import Placement, place_events

Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Lines = npt.NDArray[np.int32]

_OWN_TIMES: WeakKeyDictionary[Trace, Values] = WeakKeyDictionary()
_NESTED: WeakKeyDictionary[Trace, LineNesting] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class LineNesting:
    """How the spans on the lines of threads nest by time.

    Attributes:
        around: of every event the one directly around it, -1 for none; of what had to leave its
            line the one it was recorded in. Shape (events,).
        own_ns: what of it none of those that it is directly around covers. Shape (events,).
    """

    around: Lines
    own_ns: Values
    _placement: Placement

    @cached_property
    def rows(self) -> list[Lines]:
        """Of every thread the spans on its line, in order of start."""
        return _rows_of_threads(self._placement)


def line_nesting(trace: Trace) -> LineNesting:
    """That of a trace; the same object for the same trace."""
    found = _NESTED.get(trace)
    if found is None:
        found = _NESTED[trace] = _on_lines(trace, place_events(trace))
    return found


def own_times(trace: Trace) -> Values:
    """Nanoseconds of every event, shape (events,); the same array for the same trace."""
    found = _OWN_TIMES.get(trace)
    return line_nesting(trace).own_ns if found is None else found


BESIDE = -2
"""Around what had to leave the line of its thread, and so has no own time."""


def enclosing_spans(trace: Trace) -> Values:
    """Of every event the one directly around it by time: a row, -1 for none, or ``BESIDE``.

    Own time is what of a span none of those that it is directly around covers; so this is what
    takes to count own times of any stretch of time, such as a step. Shape (events,).
    """
    placement, start_ns = place_events(trace), trace.events["start_ns"]
    result = np.full(len(start_ns), BESIDE, dtype=np.int64)
    for rows in _rows_of_threads(placement):
        around = around_by_time(start_ns[rows], placement.duration_ns[rows])
        result[rows] = np.where(around >= 0, rows[around], -1)
    return result


def keep_own_times(part: Part, whole: Trace) -> None:
    """Count those of part of a trace on the lines of the whole.

    Where a part begins, what overlapped may do so no more, and lines of its own would be others.
    """
    placement, tree = place_events(whole), event_tree(part.trace)
    on_lines = Placement(
        placement.lines, placement.line[part.rows], tree.duration_ns, tree.by_start
    )
    _OWN_TIMES[part.trace] = _on_lines(part.trace, on_lines).own_ns


def outermost_of(trace: Trace, events: Values, group: npt.NDArray[np.signedinteger[Any]]) -> Flags:
    """Which of ``events`` do not run, by time, within another of them of their thread and group.

    Shape (events,), as ``group``. A function that calls itself is one stretch of time, however
    deep.
    """
    start = event_tree(trace).start_ns[events]
    end = start + event_tree(trace).duration_ns[events]
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


def _on_lines(trace: Trace, placement: Placement) -> LineNesting:
    """The spans of a trace on the lines that they were placed on."""
    if placement.nested is not None:
        return LineNesting(*placement.nested, placement)
    start, took, parent, line = (
        np.ascontiguousarray(one)
        for one in (
            trace.events["start_ns"],
            placement.duration_ns,
            trace.events["parent"],
            placement.line,
        )
    )
    threads = sum(one.lane == 0 for one in placement.lines)
    found = _native.nest_on_lines(start, took, line, threads, placement.by_start)
    around, own = found or _line_by_line(start, took, _rows_of_threads(placement))
    beside = np.flatnonzero(line >= threads)
    around[beside] = parent[beside]
    return LineNesting(around, own, placement)


def _line_by_line(start: Values, took: Values, lines: list[Lines]) -> tuple[Lines, Values]:
    """What is around spans, and their own time, where some overlap: in part of a trace, on the
    lines of the whole, they may."""
    around, own = np.full(len(start), -1, dtype=np.int32), np.zeros(len(start), dtype=np.int64)
    for rows in lines:
        found = around_by_time(start[rows], took[rows])
        inside = np.flatnonzero(found >= 0)
        around[rows[inside]] = rows[found[inside]]
        own[rows] += took[rows]
        np.subtract.at(own, rows[found[inside]], took[rows[inside]])
    return around, own


def _rows_of_threads(placement: Placement) -> list[Lines]:
    """The spans on the line of each thread, in order of start."""
    rows = placement.rows_of_lines()
    return [own for own, one in zip(rows, placement.lines, strict=True) if one.lane == 0]


def _by_start(start_ns: Values) -> Values:
    """Rows in order of start; of equal ones in their own."""
    in_order = bool((start_ns[1:] >= start_ns[:-1]).all())
    return np.arange(len(start_ns)) if in_order else np.argsort(start_ns, kind="stable")


def around_by_time(start: Values, took: Values) -> Values:
    """The span directly around each of one line by time, -1 for none; in order of start."""
    return _native.around_by_time(np.ascontiguousarray(start), np.ascontiguousarray(took))
