"""The call tree of a trace as arrays: ancestors, sums over subtrees, children, true ends.

A parent column holds the row of each event's parent, ``-1`` for none. Nothing recurses, so 100,000
levels are safe. Each function is one pass in row order, in which parents are close before their
children: the cost per row does not grow with the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import opscope._native as _native
from opscope.base.cached_property import cached_property
from opscope.columns.trace_data import TraceData, derived
from opscope.timeline.arrays import Flags, Rows, Values

Index = npt.NDArray[np.signedinteger[Any]]


def nearest_ancestor(parent: Index, keep: Flags) -> Index:
    """Closest proper ancestor with ``keep`` of every row, or -1. Shape (rows,)."""
    return _native.nearest_ancestor(parent_column(parent), np.ascontiguousarray(keep))


def outermost_ancestor(parent: Index, keep: Flags) -> Index:
    """Outermost of each row and its ancestors with ``keep``, or -1. Shape (rows,)."""
    return _native.outermost_ancestor(parent_column(parent), np.ascontiguousarray(keep))


def depths(parent: Index) -> Rows:
    """Number of ancestors of every row; 0 for roots. Shape (rows,)."""
    return _native.depths(parent_column(parent))


def subtree_sums(parent: Index, own: Values) -> Values:
    """Value of every row plus those of all its descendants. Shape (rows,)."""
    return _native.subtree_sums(parent_column(parent), np.ascontiguousarray(own, dtype=np.int64))


def parent_column(parent: Index) -> Index:
    """``parent`` with a dtype and layout for native code."""
    wide = parent.dtype if parent.dtype in (np.int32, np.int64) else np.int64
    return np.ascontiguousarray(parent, dtype=wide)


def levels(depth: Rows) -> list[Values]:
    """Rows by depth, roots first, each group in row order."""
    if not len(depth):
        return []
    deepest = int(depth.max())
    narrow = depth.astype(np.int16) if deepest < 2**15 else depth  # int16 sorts by radix
    order = np.argsort(narrow, kind="stable")
    counts = np.bincount(depth, minlength=deepest + 1)
    return np.split(order, np.cumsum(counts)[:-1])


def minus_children(parent: Index, value: Values, counted: Flags | None = None) -> Values:
    """Value of each row minus the values of its direct children. Shape (rows,).

    ``counted`` are the rows that count as children; all by default.
    """
    children = None if counted is None else np.ascontiguousarray(counted)
    value = np.ascontiguousarray(value, dtype=np.int64)
    return _native.minus_children(parent_column(parent), value, children)


class EventTree:
    """Structure given by the ``parent`` column; arrays are computed on first use.

    Row numbers are event ids. All arrays have shape (events,) unless noted.

    Attributes:
        parent: event directly around each, -1 at top level.
        start_ns: start, Unix nanoseconds, in order.
    """

    def __init__(self, trace: TraceData) -> None:
        # The trace itself is not kept, because the trace's cache holds this object.
        events = trace.events
        self.parent: Index = events["parent"]
        self.start_ns: Values = events["start_ns"]
        self._duration_ns: Values = events["duration_ns"]
        self._unfinished: Flags = events["unfinished"]

    @cached_property
    def duration_ns(self) -> Values:
        """Duration; an event without an end ends with its parent."""
        if not self._unfinished.any():
            return self._duration_ns
        left_open = np.flatnonzero(self._unfinished & (self.parent >= 0))
        end = self.start_ns + self._duration_ns
        for row in left_open:  # in order of start: parents before their children
            end[row] = max(self.start_ns[row], min(end[row], end[self.parent[row]]))
        duration: Values = end - self.start_ns
        return duration


@derived
def event_tree(trace: TraceData) -> EventTree:
    """Tree of ``trace``; cached for each trace."""
    return EventTree(trace)


def group_by_parent(parent: Index) -> tuple[Values, Values]:
    """Rows grouped by parent: offsets of shape (rows + 1,), and the rows that have a parent."""
    order = np.argsort(parent, kind="stable")
    counts = np.bincount(parent + 1, minlength=len(parent) + 1)
    return np.cumsum(counts) - counts[0], order[counts[0] :]


def event_arrays(trace: TraceData) -> _native.EventArrays:
    """Columns that describe nesting and kinds of events. Shapes (events,)."""

    def column(name: str) -> npt.NDArray[Any]:
        return np.ascontiguousarray(trace.events[name])

    return (
        column("parent"),
        column("thread"),
        column("name"),
        column("kind"),
        column("scope"),
        column("sequence_number"),
        column("forward_thread"),
    )


def events_named(trace: TraceData, fits: Callable[[str], object]) -> Flags:
    """Which events have a name that ``fits`` accepts. Shape (events,)."""
    name = trace.events["name"]
    used = np.flatnonzero(np.bincount(name + 1, minlength=1)) - 1
    is_wanted = np.zeros(len(trace.names) + 1, dtype=np.bool_)  # last: without a name
    for row in used.tolist():
        is_wanted[row] = row >= 0 and bool(fits(trace.names[row]))
    return np.asarray(is_wanted[name])


def numbers_of_threads(trace: TraceData) -> Values:
    """torch's id of every thread, by row; shape (threads,)."""
    known = trace.table("threads")["torch_thread_id"]
    if len(known):
        return np.ascontiguousarray(known, dtype=np.int64)
    # Traces of other tools may lack a threads table: the row is the id.
    return np.arange(int(trace.events["thread"].max(initial=-1)) + 1)
