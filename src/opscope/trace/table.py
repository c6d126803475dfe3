"""One table in memory: NumPy columns of equal length, read-only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.trace.schema import Column, TableSchema

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ListColumn:
    """A ragged ``list[int64]`` column: row i is ``values[offsets[i]:offsets[i + 1]]``.

    Attributes:
        offsets: shape (rows + 1,), int64, starting at 0.
        values: shape (offsets[-1],), int64.
    """

    offsets: npt.NDArray[np.int64]
    values: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> list[int]:
        start, end = self.offsets[row], self.offsets[row + 1]
        return list(map(int, self.values[start:end]))


class Table:
    """Columns by name; ``table["start_ns"]`` is the array itself, not a copy.

    Columns the builder left out are filled with the schema's default on first use, so code
    downstream never asks whether a source recorded something.
    """

    def __init__(self, schema: TableSchema, columns: Mapping[str, Any]) -> None:
        """``columns`` maps names to arrays, :class:`ListColumn` or lists of strings.

        Raises:
            KeyError: a column the schema does not have.
            ValueError: columns of different lengths.
        """
        self.schema = schema
        self._columns: dict[str, Any] = {}
        rows: int | None = None
        for name, data in columns.items():
            column = _as_column(schema.column(name), data)
            if rows is not None and len(column) != rows:
                raise ValueError(f"{schema.name}.{name} has {len(column)} rows, expected {rows}")
            rows = len(column)
            self._columns[name] = column
        self._rows = rows or 0

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, name: str) -> Array:
        """A flat column as an array of the schema's dtype (object dtype for strings)."""
        column = self._column(name)
        if isinstance(column, ListColumn):
            raise TypeError(f"{self.schema.name}.{name} is ragged; use .lists({name!r})")
        return column  # type: ignore[no-any-return]

    def lists(self, name: str) -> ListColumn:
        """A ragged column."""
        column = self._column(name)
        if not isinstance(column, ListColumn):
            raise TypeError(f"{self.schema.name}.{name} is flat; use [{name!r}]")
        return column

    def _column(self, name: str) -> Any:
        if name not in self._columns:
            self._columns[name] = _filled(self.schema.column(name), self._rows)
        return self._columns[name]


def _as_column(column: Column, data: Any) -> Any:
    if column.dtype.startswith("list"):
        if not isinstance(data, ListColumn):
            raise TypeError(f"{column.name} must be a ListColumn")
        return data
    dtype = object if column.dtype == "string" else np.dtype(column.dtype)
    array = np.asarray(data, dtype=dtype)
    array = array.view()
    array.flags.writeable = False
    return array


def _filled(column: Column, rows: int) -> Any:
    if column.dtype.startswith("list"):
        return ListColumn(np.zeros(rows + 1, dtype=np.int64), np.zeros(0, dtype=np.int64))
    if column.dtype == "string":
        return np.full(rows, "", dtype=object)
    # A broadcast of one element: a missing column of a million rows costs eight bytes.
    return np.broadcast_to(np.array(column.default, dtype=np.dtype(column.dtype)), (rows,))
