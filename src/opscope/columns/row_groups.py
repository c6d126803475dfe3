"""Ordering and grouping of equal rows of columns, at a constant cost per row.

``np.unique`` and ``np.lexsort`` compare rows: their cost per row grows with the number of rows, and
is many times as high for several columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import opscope._native as _native

Values = npt.NDArray[np.int64]
Column = npt.NDArray[np.integer[Any]] | npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class RowGroups:
    """Groups of equal rows, in order of their values.

    Attributes:
        columns: values of each group, column by column, each of shape (groups,).
        group: group of every row, shape (rows,).
        first: first row of each group, shape (groups,).
        count: number of rows of each group, shape (groups,).
    """

    columns: tuple[Values, ...]
    group: Values
    first: Values
    count: Values

    def __len__(self) -> int:
        return len(self.first)

    def rows(self) -> list[tuple[int, ...]]:
        """Values of each group."""
        return list(zip(*(column.tolist() for column in self.columns), strict=True))


def group_rows(*columns: Column) -> RowGroups:
    """Group equal rows; the first column orders the groups first. Each of shape (rows,)."""
    wide = _wide(columns)
    group, first, count = _native.row_groups(wide)
    return RowGroups(tuple(column[first] for column in wide), group, first, count)


def order_rows(*columns: Column) -> Values:
    """Rows in order of the first column, then of the next; stable. Shape (rows,)."""
    return _native.row_order(_wide(columns))


def rows_among(ascending: Values, values: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """First position of each value among ascending ones, -1 if missing. Shape of ``values``."""
    if not len(ascending):
        return np.full(len(values), -1, dtype=np.int32)
    place = np.searchsorted(ascending, values)
    place[place == len(ascending)] = 0
    return np.where(ascending[place] == values, place, -1).astype(np.int32)


def _wide(columns: Sequence[Column]) -> list[Values]:
    return [np.ascontiguousarray(column, dtype=np.int64) for column in columns]
