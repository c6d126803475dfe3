"""Self time: what an event spent outside the events it called."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.timeline.tree.ancestry import Index, Mask, nearest_ancestor, parent_column
from opscope.timeline.tree.event_tree import EventTree


def self_times(
    tree: EventTree, is_async: npt.NDArray[np.bool_] | None = None
) -> npt.NDArray[np.int64]:
    """Duration minus that of direct children, in nanoseconds. Shape (events,).

    An asynchronous event (``is_async``) overlaps what runs after it, so it has no self time and
    takes none from its parent; what ran inside it counts as its parent's.
    """
    parent: Index = tree.parent
    if is_async is not None and is_async.any():
        parent = np.where(is_async, -1, nearest_ancestor(parent, ~is_async))
        return np.where(is_async, 0, minus_children(parent, tree.duration_ns))
    return minus_children(parent, tree.duration_ns)


def minus_children(
    parent: Index, value: npt.NDArray[np.int64], counted: Mask | None = None
) -> npt.NDArray[np.int64]:
    """Each row's value minus the values of its direct children. Shape (rows,).

    ``counted`` names the rows that count as children; all by default.
    """
    children = None if counted is None else np.ascontiguousarray(counted)
    value = np.ascontiguousarray(value, dtype=np.int64)
    return _native.minus_children(parent_column(parent), value, children)
