"""Shapes of tensors as whole columns: validity and element counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.columns.column import SHAPE
from opscope.columns.table import ListColumn

Mask = npt.NDArray[np.bool_]


def too_large(lists: ListColumn, limit: int) -> Mask:
    """Rows whose values multiply to more than ``limit``, shape (rows,)."""
    lengths = np.diff(lists.offsets)
    result = np.zeros(len(lengths), dtype=np.bool_)
    if not len(lists.values):
        return result
    # The largest value and the longest row suffice for nearly every trace.
    if max(int(lists.values.max()), 1) ** int(lengths.max()) <= limit:
        return result
    filled = np.flatnonzero(lengths)
    counts = np.multiply.reduceat(lists.values.astype(np.float64), lists.offsets[filled])
    result[filled] = ~(counts <= limit)
    return result


def element_counts(sizes: ListColumn) -> npt.NDArray[np.int64]:
    """Number of elements of each shape; 1 for an empty one. Shape (rows,)."""
    result = np.ones(len(sizes), dtype=np.int64)
    filled = np.flatnonzero(np.diff(sizes.offsets))
    if len(filled):
        # Empty rows have no values, so each product ends where the next begins.
        result[filled] = np.multiply.reduceat(sizes.values, sizes.offsets[filled])
    return result


def sound_shapes(sizes: ListColumn, strides: ListColumn) -> tuple[ListColumn, ListColumn]:
    """Shapes and strides of a foreign file; impossible ones become empty."""
    impossible = _negative(sizes)
    if impossible.any():
        sizes = _emptied(sizes, impossible)
    impossible = too_large(sizes, SHAPE["most_product"])
    if impossible.any():
        sizes = _emptied(sizes, impossible)
    is_different = np.diff(strides.offsets) != np.diff(sizes.offsets)
    return sizes, _emptied(strides, is_different) if is_different.any() else strides


def _negative(lists: ListColumn) -> Mask:
    result = np.zeros(len(lists), dtype=np.bool_)
    places = np.flatnonzero(lists.values < 0)
    result[np.searchsorted(lists.offsets, places, side="right") - 1] = True
    return result


def _emptied(lists: ListColumn, rows: Mask) -> ListColumn:
    lengths = np.diff(lists.offsets)
    offsets: npt.NDArray[Any] = np.zeros(len(lists.offsets), dtype=np.int64)
    np.cumsum(np.where(rows, 0, lengths), out=offsets[1:])
    return ListColumn(offsets, lists.values[np.repeat(~rows, lengths)])
