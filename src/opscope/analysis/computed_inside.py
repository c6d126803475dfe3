"""Calls whose tensors have no elements of their own, so that what they compute is computed inside.

``torch.func`` hands operators wrappers: under ``vmap`` with the shape of one sample, under ``grad``
and ``jvp`` around what is differentiated. Subclasses of tensors do the same. Sparse tensors have no
storage either: their shapes say what a dense tensor would have, and nothing of their elements.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope.columns.schema import Role
from opscope.columns.trace_data import TraceData
from opscope.timeline.tree.ancestry import nearest_ancestor

Flags = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int32]


def arguments_of_callers(trace: TraceData, wanted: Flags) -> Counts:
    """How many of the first arguments recorded of each event are not its own. Shape (events,).

    Where ``torch.func`` unwraps its tensors, torch leaves the wrappers on the stack that it hands
    to the operator inside, and reports the whole stack as that one's arguments. ``wanted`` has the
    events of interest; they have the arguments of the same operator around them twice or more.
    """
    skipped = np.zeros(len(trace.events), dtype=np.int32)
    parent, name = trace.events["parent"], trace.events["name"]
    again = wanted & (parent >= 0) & wanted[parent] & (name == name[parent])
    if not again.any():
        return skipped
    counts = _argument_counts(trace)
    own = counts[nearest_ancestor(parent, wanted & ~again)]
    stacked = again & (own > 0) & (counts > own)
    stacked[stacked] = counts[stacked] % own[stacked] == 0
    skipped[stacked] = (counts - own)[stacked]
    return skipped


def is_computed_inside(trace: TraceData, skipped: Counts) -> Flags:
    """Whether an event was given a tensor that is not empty and has no memory. Shape (events,).

    Of files that do not say which tensor is which nothing is known, so False. Meta tensors and fake
    ones have no memory either, and nothing is computed with them.
    """
    tensors = trace.table("tensors")
    event = tensors["event"]
    bare = (tensors["role"] == Role.INPUT) & (tensors["impl"] != 0) & (tensors["storage"] == 0)
    rows = np.flatnonzero(bare)
    rows = rows[tensors["argument"][rows] >= skipped[event[rows]]]
    result = np.zeros(len(trace.events), dtype=np.bool_)
    result[event[rows[~_is_empty(trace, rows)]]] = True
    return result


def _is_empty(trace: TraceData, rows: npt.NDArray[np.int64]) -> Flags:
    """Whether a dimension is 0, of rows of ``tensors``."""
    sizes = trace.table("tensors").lists("sizes")
    zeros = np.concatenate([[0], np.cumsum(sizes.values == 0)])
    empty: Flags = zeros[sizes.offsets[rows + 1]] > zeros[sizes.offsets[rows]]
    return empty


def _argument_counts(trace: TraceData) -> Counts:
    """How many positional arguments were recorded of every event."""
    counts = np.zeros(len(trace.events), dtype=np.int32)
    for name in ("tensors", "scalars"):
        table = trace.table(name)
        rows = np.flatnonzero(table["role"] == Role.INPUT)
        np.maximum.at(counts, table["event"][rows], table["argument"][rows].astype(np.int32) + 1)
    return counts
