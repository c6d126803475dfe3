"""Vectorised questions about parent columns: nearest ancestors, depths, sums over subtrees.

A parent column holds the row of each event's parent, ``-1`` for none. All functions need only that
parents have no cycle; none of them recurses, so 100,000 levels are as safe as a flat list.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Index = npt.NDArray[np.signedinteger[Any]]
Mask = npt.NDArray[np.bool_]


def nearest_ancestor(parent: Index, keep: Mask) -> Index:
    """For every row the closest proper ancestor with ``keep``, or -1. Shape (rows,).

    Pointers jump over runs of rows that are not kept, doubling their reach each round, so the cost
    grows with the logarithm of the longest run.
    """
    up = np.array(parent)
    pending = np.flatnonzero((up >= 0) & ~keep[up])
    while pending.size:
        hop = up[up[pending]]
        up[pending] = hop
        pending = pending[(hop >= 0) & ~keep[hop]]
    return up


def depths(parent: Index) -> npt.NDArray[np.int32]:
    """How many ancestors every row has; 0 for roots. Shape (rows,)."""
    up = np.array(parent)
    depth = (up >= 0).astype(np.int32)
    pending = np.flatnonzero(up >= 0)
    while pending.size:
        ancestor = up[pending]
        depth[pending] += depth[ancestor]
        hop = up[ancestor]
        up[pending] = hop
        pending = pending[hop >= 0]
    return depth


def subtree_sums(parent: Index, own: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Every row's ``own`` value plus those of all its descendants. Shape (rows,)."""
    total = np.array(own, dtype=np.int64)
    for level in reversed(levels(depths(parent))[1:]):
        np.add.at(total, parent[level], total[level])
    return total


def levels(depth: npt.NDArray[np.int32]) -> list[npt.NDArray[np.int64]]:
    """Rows grouped by depth, roots first, each group in row order."""
    if not len(depth):
        return []
    deepest = int(depth.max())
    narrow = depth.astype(np.int16) if deepest < 2**15 else depth  # int16 sorts by radix
    order = np.argsort(narrow, kind="stable")
    counts = np.bincount(depth, minlength=deepest + 1)
    return np.split(order, np.cumsum(counts)[:-1])
