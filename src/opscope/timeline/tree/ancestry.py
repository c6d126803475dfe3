"""Questions about parent columns: nearest ancestors, depths, sums over subtrees.

A parent column holds the row of each event's parent, ``-1`` for none. All functions need only that
parents have no cycle; none of them recurses, so 100,000 levels are as safe as a flat list. Each is
one pass in the order of rows, in which parents stand close before their children: what a row costs
does not grow with the trace.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from opscope import _native

Index = npt.NDArray[np.signedinteger[Any]]
Mask = npt.NDArray[np.bool_]
Values = npt.NDArray[np.int64]


def nearest_ancestor(parent: Index, keep: Mask) -> Index:
    """For every row the closest proper ancestor with ``keep``, or -1. Shape (rows,)."""
    return _native.nearest_ancestor(parent_column(parent), np.ascontiguousarray(keep))


def outermost_ancestor(parent: Index, keep: Mask) -> Index:
    """For every row the furthest of it and its ancestors with ``keep``, or -1. Shape (rows,)."""
    return _native.outermost_ancestor(parent_column(parent), np.ascontiguousarray(keep))


def depths(parent: Index) -> npt.NDArray[np.int32]:
    """How many ancestors every row has; 0 for roots. Shape (rows,)."""
    return _native.depths(parent_column(parent))


def subtree_sums(parent: Index, own: Values) -> Values:
    """Every row's ``own`` value plus those of all its descendants. Shape (rows,)."""
    return _native.subtree_sums(parent_column(parent), np.ascontiguousarray(own, dtype=np.int64))


def parent_column(parent: Index) -> Index:
    """``parent`` as native code takes it."""
    wide = parent.dtype if parent.dtype in (np.int32, np.int64) else np.int64
    return np.ascontiguousarray(parent, dtype=wide)


def levels(depth: npt.NDArray[np.int32]) -> list[npt.NDArray[np.int64]]:
    """Rows grouped by depth, roots first, each group in row order."""
    if not len(depth):
        return []
    deepest = int(depth.max())
    narrow = depth.astype(np.int16) if deepest < 2**15 else depth  # int16 sorts by radix
    order = np.argsort(narrow, kind="stable")
    counts = np.bincount(depth, minlength=deepest + 1)
    return np.split(order, np.cumsum(counts)[:-1])


def minus_children(
    parent: Index, value: npt.NDArray[np.int64], counted: Mask | None = None
) -> npt.NDArray[np.int64]:
    """Each row's value minus the values of its direct children. Shape (rows,).

    ``counted`` names the rows that count as children; all by default.
    """
    children = None if counted is None else np.ascontiguousarray(counted)
    value = np.ascontiguousarray(value, dtype=np.int64)
    return _native.minus_children(parent_column(parent), value, children)
