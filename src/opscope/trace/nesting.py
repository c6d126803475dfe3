"""Which span ran inside which, from times alone, for traces that do not say."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]


def parents_by_nesting(
    thread: Int64, start: Int64, end: Int64
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """The innermost earlier span of the same thread that contains each span, and which overlap.

    Args:
        thread: shape (spans,).
        start: shape (spans,), ascending; of spans with equal starts the outer one comes first.
        end: shape (spans,), not before ``start``.

    Returns:
        ``parent``, shape (spans,), -1 for none; and ``outlasts``, shape (spans,): True where a
        span began inside one that began after its parent, and ended after it: the two overlap.
    """
    parent = np.full(len(thread), -1, dtype=np.int32)
    outlasts = np.zeros(len(thread), dtype=np.bool_)
    for rows in _rows_by_thread(thread):
        found, sticks_out = _nest(start[rows].tolist(), end[rows].tolist())
        inner = np.array(found, dtype=np.int64)
        parent[rows] = np.where(inner >= 0, rows[inner], -1)
        outlasts[rows] = sticks_out
    return parent, outlasts


def _nest(starts: list[int], ends: list[int]) -> tuple[list[int], list[bool]]:
    """One linear pass over one thread with a stack of the spans that are still open."""
    parents: list[int] = []
    outlasts: list[bool] = []
    stack: list[int] = []
    for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
        sticks_out = False
        while stack:
            top = stack[-1]
            top_end = ends[top]
            # A zero-length span at the end of another one comes after it. Where both are empty
            # and at the same time, the second is inside the first.
            if top_end >= end and (top_end > start or starts[top] == start):
                break
            sticks_out = sticks_out or top_end > start
            stack.pop()
        parents.append(stack[-1] if stack else -1)
        outlasts.append(sticks_out)
        stack.append(row)
    return parents, outlasts


def enclosing(
    events: tuple[Int64, Int64, Int64, npt.NDArray[np.int32]], thread: Int64, time: Int64
) -> npt.NDArray[np.int32]:
    """The innermost span open on ``thread`` at ``time``, or -1, for many points at once.

    Args:
        events: thread, start (ascending), end and parent of the spans, each of shape (spans,).
        thread: shape (points,).
        time: shape (points,).
    """
    event_thread, start, end, parent = events
    found = np.full(len(thread), -1, dtype=np.int32)
    rows_of = {int(event_thread[rows[0]]): rows for rows in _rows_by_thread(event_thread)}
    for points in _rows_by_thread(thread):
        rows = rows_of.get(int(thread[points[0]]))
        if rows is not None:
            last = np.searchsorted(start[rows], time[points], side="right") - 1
            found[points] = np.where(last >= 0, rows[last], -1)
    return _climb(found, end, parent, time)


def _climb(
    found: npt.NDArray[np.int32], end: Int64, parent: npt.NDArray[np.int32], time: Int64
) -> npt.NDArray[np.int32]:
    """Replace spans that ended before ``time`` by their parents until none is left."""
    points = np.flatnonzero(found >= 0)
    while len(points):
        points = points[end[found[points]] < time[points]]
        found[points] = parent[found[points]]
        points = points[found[points] >= 0]
    return found


def _rows_by_thread(thread: Int64) -> list[npt.NDArray[np.int64]]:
    """The rows of each thread, ascending; no empty groups."""
    if not len(thread):
        return []
    order = np.argsort(thread, kind="stable")
    borders = np.flatnonzero(np.diff(thread[order])) + 1
    return np.split(order, borders)
