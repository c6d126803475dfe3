"""One table in memory: NumPy columns of equal length, read-only."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.base.html_table import ShownTable
from opscope.columns.column import Column, TableSchema
from opscope.errors import UnknownNameError

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

    def __repr__(self) -> str:
        return f"<ListColumn: {len(self):,} rows, {len(self.values):,} values>"

    def __getitem__(self, row: int) -> list[int]:
        start, end = self.offsets[row], self.offsets[row + 1]
        return list(map(int, self.values[start:end]))

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> ListColumn:
        """These rows in this order."""
        lengths = np.diff(self.offsets)[rows]
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        shift = np.repeat(self.offsets[:-1][rows] - offsets[:-1], lengths)
        return ListColumn(offsets, self.values[shift + np.arange(offsets[-1])])

    def between(self, begin: int, end: int) -> ListColumn:
        """Rows from ``begin`` to before ``end``."""
        offsets = self.offsets[begin : end + 1]
        return ListColumn(offsets - offsets[0], self.values[offsets[0] : offsets[-1]])


class Table:
    """Columns by name; ``table["start_ns"]`` is the array itself, not a copy.

    Missing columns have the schema's default, filled in on first use. So other code need not check
    what a source recorded.
    """

    def __init__(self, schema: TableSchema, columns: Mapping[str, Any]) -> None:
        """``columns`` maps names to arrays, :class:`ListColumn` or lists of strings."""
        self.schema = schema
        arrays: dict[str, Any] = {}
        rows: int | None = None
        for name, data in columns.items():
            column = _as_column(schema.column(name), data)
            if rows is not None and len(column) != rows:
                raise ValueError(f"{schema.name}.{name} has {len(column)} rows, expected {rows}")
            rows = len(column)
            arrays[name] = column
        self._columns: Mapping[str, Any] = arrays
        self._filled: dict[str, Any] = {}  # missing columns, filled in on first use
        self._rows = rows or 0

    @classmethod
    def without_columns(cls, schema: TableSchema, rows: int) -> Table:
        """Table of ``rows`` rows, each with the defaults of the schema."""
        table = cls(schema, {})
        table._rows = rows
        return table

    def __len__(self) -> int:
        return self._rows

    def __repr__(self) -> str:
        columns = ", ".join(column.name for column in self.schema.columns)
        return f"<Table {self.schema.name}: {self._rows:,} rows of {columns}>"

    def head(self, rows: int = 5) -> ShownTable:
        """First rows, for ``print`` and notebooks; references to names stay numbers."""
        columns = [column for column in self.schema.columns if self.has(column.name)]
        shown = range(min(rows, self._rows))
        cells = [
            [str(row), *(str(self._column(column.name)[row]) for column in columns)]
            for row in shown
        ]
        return ShownTable(repr(self), ["row", *(column.name for column in columns)], cells)

    def __getitem__(self, name: str) -> Array:
        """A flat column as an array of the schema's dtype (object dtype for strings)."""
        column = self._column(name)
        if isinstance(column, ListColumn):
            raise TypeError(f"{self.schema.name}.{name} is ragged; use .lists({name!r})")
        return column  # type: ignore[no-any-return]

    def has(self, name: str) -> bool:
        """Whether a column was given; otherwise it has its default in every row."""
        return name in self._columns

    @property
    def given(self) -> Mapping[str, Any]:
        """Given columns: arrays and :class:`ListColumn`, by name."""
        return MappingProxyType(self._columns)

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> Table:
        """Table of these rows in this order."""
        return Table(
            self.schema,
            {
                name: column.take(rows) if isinstance(column, ListColumn) else _taken(column, rows)
                for name, column in self._columns.items()
            },
        )

    def between(self, begin: int, end: int) -> Table:
        """Table of the rows from ``begin`` to before ``end``, in the same memory."""
        return Table(
            self.schema,
            {
                name: column.between(begin, end)
                if isinstance(column, ListColumn)
                else column[begin:end]
                for name, column in self._columns.items()
            },
        )

    def replaced(self, columns: Mapping[str, Any]) -> Table:
        """Table with some columns replaced or added."""
        return Table(self.schema, {**self._columns, **columns})

    def lists(self, name: str) -> ListColumn:
        """A ragged column."""
        column = self._column(name)
        if not isinstance(column, ListColumn):
            raise TypeError(f"{self.schema.name}.{name} is flat; use [{name!r}]")
        return column

    def _column(self, name: str) -> Any:
        column = self._columns.get(name, self._filled.get(name))
        if column is None:
            schemas = {schema.name: schema for schema in self.schema.columns}
            if name not in schemas:
                raise unknown_name(f"The table {self.schema.name} has no column", name, [*schemas])
            column = self._filled[name] = _filled(schemas[name], self._rows)
        return column


def nearest(name: object, names: Iterable[str]) -> str | None:
    """The name in ``names`` most similar to ``name``; None if none is similar."""
    return next(iter(difflib.get_close_matches(str(name), list(names), n=1)), None)


def unknown_name(problem: str, name: object, known: Sequence[str]) -> UnknownNameError:
    """Error for an unknown name, with a suggestion if one is similar."""
    best = next((one for one in known if one.startswith(f"{name}_")), None) or nearest(name, known)
    suggestion = f"Did you mean {best!r}? " if best else ""
    return UnknownNameError(f"{problem} {name!r}. {suggestion}There are: {', '.join(known)}.")


def _as_column(column: Column, data: Any) -> Any:
    """Column data for a table: read-only, of the schema's dtype."""
    if column.is_list:
        if not isinstance(data, ListColumn):
            raise TypeError(f"{column.name} must be a ListColumn")
        return data
    dtype = object if column.dtype == "string" else np.dtype(column.dtype)
    array = np.asarray(data, dtype=dtype)
    array = array.view()
    array.flags.writeable = False
    return array


def _taken(column: Array, rows: npt.NDArray[np.integer[Any]]) -> Array:
    if column.strides == (0,) and len(column):  # one value, broadcast
        return np.broadcast_to(column[:1], rows.shape)
    rows_taken: Array = column[rows]
    return rows_taken


def _filled(column: Column, rows: int) -> Any:
    if column.is_list:
        return ListColumn(np.zeros(rows + 1, dtype=np.int64), np.zeros(0, dtype=np.int64))
    if column.dtype == "string":
        return np.full(rows, "", dtype=object)
    # Broadcast of one element: a missing column of a million rows takes eight bytes.
    return np.broadcast_to(np.array(column.default, dtype=np.dtype(column.dtype)), (rows,))
