"""Rows of columns in order, and which of them are equal; what a row costs does not grow with them.

Comparing rows with each other, as ``np.unique`` and ``np.lexsort`` do, takes longer the more there
are, and for rows of several columns many times as long as for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope import _native

Values = npt.NDArray[np.int64]
Column = npt.NDArray[np.integer[Any]] | npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class RowGroups:
    """Equal rows of some columns. Groups are in order of what the rows hold.

    Attributes:
        columns: what the rows of each group hold, column by column. Each of shape (groups,).
        group: of every row, shape (rows,).
        first: the first row of each group, shape (groups,).
        count: how many rows each has, shape (groups,).
    """

    columns: tuple[Values, ...]
    group: Values
    first: Values
    count: Values

    def __len__(self) -> int:
        return len(self.first)

    def rows(self) -> list[tuple[int, ...]]:
        """What the rows of each group hold, group by group."""
        return list(zip(*(column.tolist() for column in self.columns), strict=True))


def group_rows(*columns: Column) -> RowGroups:
    """Number equal rows; the first column decides first about the order. Each of shape (rows,)."""
    wide = _wide(columns)
    group, first, count = _native.row_groups(wide)
    return RowGroups(tuple(column[first] for column in wide), group, first, count)


def order_rows(*columns: Column) -> Values:
    """Rows in order of the first column, of equal ones by the next; else as they are."""
    return _native.row_order(_wide(columns))


def rows_among(ascending: Values, values: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """The place of each value among ascending ones, each there once; -1 for what is not there."""
    if not len(ascending):
        return np.full(len(values), -1, dtype=np.int32)
    place = np.searchsorted(ascending, values)
    place[place == len(ascending)] = 0
    return np.where(ascending[place] == values, place, -1).astype(np.int32)


def _wide(columns: Sequence[Column]) -> list[Values]:
    return [np.ascontiguousarray(column, dtype=np.int64) for column in columns]
