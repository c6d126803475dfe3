"""How often operators over many elements begin their innermost loop, where it is a short one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope.trace.shapes import element_counts
from opscope.trace.table import ListColumn, Table

Values = npt.NDArray[np.int64]

_SHORT = 16
"""Elements in a row of which the loop takes less than being begun."""


def inner_loops(tensors: Table) -> Values:
    """Of each tensor how many rows of few elements it has that do not lie one after the other.

    Those that do are taken as one (torch's TensorIterator, "coalescing of dimensions").
    Shape (tensors,).
    """
    sizes, strides = tensors.lists("sizes"), tensors.lists("strides")
    result = np.zeros(len(sizes), dtype=np.int64)
    matrices = np.flatnonzero(
        (np.diff(sizes.offsets) >= 2) & (np.diff(strides.offsets) == np.diff(sizes.offsets))
    )
    width, row_stride = _from_the_end(sizes, matrices, 1), _from_the_end(strides, matrices, 2)
    apart = (width > 1) & (width < _SHORT)
    apart &= row_stride != width * _from_the_end(strides, matrices, 1)
    rows = matrices[apart]
    result[rows] = element_counts(sizes)[rows] // width[apart]
    return result


def _from_the_end(lists: ListColumn, rows: Values, place: int) -> Values:
    return np.asarray(lists.values[lists.offsets[rows + 1] - place], dtype=np.int64)
