"""Annotations that were opened inside a Python call, nested by time instead.

``record_function.__enter__`` is a call: where Python calls are recorded, the annotation begins
inside it and outlives it, so its ``parent`` is a call that ended at once, and what runs during the
annotation is beside it. torch.profiler's lists nest by time: the annotation belongs to what
contains it, and contains what ran during it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope.trace.nesting import enclosing, parents_by_nesting
from opscope.trace.trace import Trace
from opscope.tree.ancestry import Index, nearest_ancestor
from opscope.tree.event_tree import EventTree
from opscope.tree.frame_text import python_events

Flags = npt.NDArray[np.bool_]


def nest_annotations(trace: Trace, tree: EventTree) -> tuple[Index, Flags]:
    """Parents with such annotations nested by time, and which events remain asynchronous.

    Both have shape (events,). Nothing is copied where there is nothing to change.
    """
    is_async: Flags = trace.events["is_async"]
    outlived = np.flatnonzero(is_async & (tree.parent >= 0))
    outlived = outlived[python_events(trace)[tree.parent[outlived]]] if outlived.size else outlived
    if not outlived.size:
        return tree.parent, is_async
    end = tree.start_ns + tree.duration_ns
    parent = np.array(tree.parent)
    parent[outlived] = _containers(parent, end, outlived)
    moved = np.zeros(len(parent), dtype=np.bool_)
    moved[outlived] = True
    rows, groups = _siblings(trace, parent, outlived)
    inside, _ = parents_by_nesting(groups, tree.start_ns[rows], end[rows])
    found = np.where(inside >= 0, rows[inside], 0)
    adopted = (inside >= 0) & moved[found]
    parent[rows[adopted]] = found[adopted]
    return parent, is_async & ~moved


def events_of_allocations(trace: Trace, tree: EventTree, parent: Index) -> Index:
    """The event every allocation belongs to once ``parent`` nests annotations by time.

    One made directly by what contains an annotation, while that was open, is the annotation's.
    Shape (allocations,).
    """
    table = trace.table("allocations")
    event: Index = table["event"]
    moved = parent != tree.parent
    moved &= trace.events["is_async"]
    rows = np.flatnonzero(moved)
    if not rows.size or not len(table):
        return event
    place = np.cumsum(moved) - 1
    outer = nearest_ancestor(parent, moved)[rows]
    spans = (
        trace.events["thread"][rows].astype(np.int64),
        tree.start_ns[rows],
        (tree.start_ns + tree.duration_ns)[rows],
        np.where(outer >= 0, place[outer], -1).astype(np.int32),
    )
    inside = enclosing(spans, table["thread"].astype(np.int64), table["time_ns"])
    annotation = rows[inside]
    adopted = (inside >= 0) & (event < annotation)  # an event that began later is inside it
    return np.where(adopted, annotation, event)


def _containers(
    parent: Index, end: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The nearest ancestor of each row that ends no earlier, or -1."""
    around = parent[rows].astype(np.int64)
    while (too_short := (around >= 0) & (end[around] < end[rows])).any():
        around[too_short] = parent[around[too_short]]
    return around


def _siblings(
    trace: Trace, parent: Index, rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """All events beside any of ``rows``, in order of start, and a number per common parent."""
    threads = trace.events["thread"]
    # Events at top level are beside each other if they are on one thread.
    group = np.where(parent >= 0, parent, -1 - threads).astype(np.int64)
    beside = np.flatnonzero(np.isin(group, group[rows]))
    return beside, group[beside]
