"""Nesting of spans by time, for traces without parents."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import opscope._native as _native

Int64 = npt.NDArray[np.int64]


def parents_by_nesting(
    thread: Int64, start: Int64, end: Int64, rounding_ns: int = 0
) -> tuple[npt.NDArray[np.int32], Int64]:
    """Innermost earlier span of the same thread that contains each span, and overlaps.

    Args:
        thread: shape (spans,).
        start: shape (spans,), ascending; of equal starts the outer span comes first.
        end: shape (spans,), not before ``start``.
        rounding_ns: a span mostly in another counts as in it if it ends at most this much later.

    Returns:
        ``parent``, shape (spans,), -1 for none; and for each span its overlap with a span in which
            it begins and which it outlasts, 0 for none.
    """
    columns = [np.ascontiguousarray(column, dtype=np.int64) for column in (thread, start, end)]
    return _native.contain(columns[0], columns[1], columns[2], rounding_ns)


def rounding_of(start: Int64, duration: Int64) -> int:
    """Nanoseconds by which a span may end late because a file's times are rounded.

    Start and duration are rounded separately, so the error is two units of the file. Profilers
    write units of at most a microsecond.
    """
    return 2 * max(_unit_ns(start), _unit_ns(duration))


def _unit_ns(times: Int64) -> int:
    return next((unit for unit in (1000, 100, 10) if not (times % unit).any()), 1)


def enclosing(
    events: tuple[Int64, Int64, Int64, npt.NDArray[np.int32]], thread: Int64, time: Int64
) -> npt.NDArray[np.int32]:
    """Innermost span open on ``thread`` at ``time``, -1 for none, for many points at once.

    Args:
        events: thread, start (ascending), end and parent of the spans, each of shape (spans,).
        thread: shape (points,).
        time: shape (points,).
    """
    event_thread, start, end, parent = events
    innermost = np.full(len(thread), -1, dtype=np.int32)
    rows_of = {int(event_thread[rows[0]]): rows for rows in _rows_by_thread(event_thread)}
    for points in _rows_by_thread(thread):
        rows = rows_of.get(int(thread[points[0]]))
        if rows is not None:
            last = np.searchsorted(start[rows], time[points], side="right") - 1
            innermost[points] = np.where(last >= 0, rows[last], -1)
    return _climb(innermost, end, parent, time)


def _climb(
    spans: npt.NDArray[np.int32], end: Int64, parent: npt.NDArray[np.int32], time: Int64
) -> npt.NDArray[np.int32]:
    """Replace spans that end before ``time`` by their ancestors that do not."""
    points = np.flatnonzero(spans >= 0)
    while len(points):
        points = points[end[spans[points]] < time[points]]
        spans[points] = parent[spans[points]]
        points = points[spans[points] >= 0]
    return spans


def _rows_by_thread(thread: Int64) -> list[npt.NDArray[np.int64]]:
    if not len(thread):
        return []
    order = np.argsort(thread, kind="stable")
    borders = np.flatnonzero(np.diff(thread[order])) + 1
    return np.split(order, borders)
