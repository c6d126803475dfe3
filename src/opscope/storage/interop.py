"""Tables of a trace as Arrow, pandas and Polars, and Arrow back to tables.

Flat columns become Arrow columns without a copy. Tables to which other tables refer get ``id``, the
row number. Decoded columns have text instead of rows of ``names``, and labels instead of codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from opscope.base.arrow import in_one, is_text, numbers_of, pa
from opscope.columns.column import Column, TableSchema
from opscope.columns.labels import LABELS
from opscope.columns.names import Names
from opscope.columns.row_groups import group_rows
from opscope.columns.schema import TABLES
from opscope.columns.table import ListColumn, Table
from opscope.columns.trace_data import TraceData
from opscope.errors import MissingDependencyError, UsageError


def has_id(table: str) -> bool:
    """Whether other tables refer to rows of ``table``, so that it has an ``id``."""
    return table in _REFERRED


_REFERRED = {column.refers for schema in TABLES.values() for column in schema.columns}

_MIN_ROWS_TO_CHECK = 100_000  # minimum rows for the constant-column check


def to_arrow(trace: TraceData, table: str, text: bool = True) -> pa.Table:
    """One table as Arrow; see :meth:`Trace.to_arrow`."""
    schema = _schema(table)
    if table == "names":
        return pa.table({"id": _row_numbers(len(trace.names)), "text": names_array(trace.names)})
    source = trace.table(table)
    columns = {"id": _row_numbers(len(source))} if has_id(table) else {}
    for column in schema.columns:
        columns[column.name] = _arrow_column(source, column)
        labels = LABELS.get((table, column.name))
        if text and column.refers == "names":
            columns[column.name] = _dictionary(source[column.name], partial(_name, trace.names))
        elif text and labels:
            columns[column.name] = _dictionary(source[column.name], partial(_label, labels))
    return pa.table(columns)


def table_to_arrow(table: Table) -> pa.Table:
    """Convert all columns of a table of any schema to Arrow, unchanged."""
    return pa.table({c.name: _arrow_column(table, c) for c in table.schema.columns})


def to_pandas(trace: TraceData, table: str, text: bool = True) -> Any:
    """One table as a pandas DataFrame; see :meth:`Trace.to_pandas`."""
    try:
        import pandas  # noqa: F401
    except ImportError as error:
        raise _missing("pandas", "to_pandas") from error
    return to_arrow(trace, table, text).to_pandas()


def to_polars(trace: TraceData, table: str, text: bool = True) -> Any:
    """One table as a Polars DataFrame; see :meth:`Trace.to_polars`."""
    try:
        import polars
    except ImportError as error:
        raise _missing("polars", "to_polars") from error
    return polars.from_arrow(to_arrow(trace, table, text))


def _missing(package: str, method: str) -> MissingDependencyError:
    return MissingDependencyError(
        f"trace.{method}() needs {package}, which is not installed. Run: pip install {package} "
        "(or use trace.to_arrow(), which needs no further package)."
    )


def _schema(table: str) -> TableSchema:
    if table != "names" and table not in TABLES:
        raise UsageError(
            f"A trace has no table {table!r}. Use one of: {', '.join([*TABLES, 'names'])}."
        )
    return TABLES.get(table, TableSchema("names", "one string", ()))


def _row_numbers(rows: int) -> pa.Array:
    return _shared(np.arange(rows, dtype=np.int32))


def _arrow_column(source: Table, column: Column) -> pa.Array:
    if column.is_list:
        ragged = source.lists(column.name)
        return pa.LargeListArray.from_arrays(_shared(ragged.offsets), _shared(ragged.values))
    if column.dtype == "string":
        return _texts([str(text).encode("utf-8", "replace") for text in source[column.name]])
    return _shared(source[column.name])


# Arrays are made of buffers, because `pa.array` imports pandas to check for pandas objects: 0.25 s
# at the end of every short program.


def _shared(values: npt.NDArray[Any]) -> pa.Array:
    """Numbers as Arrow, in the same memory if contiguous."""
    kind, rows = pa.from_numpy_dtype(values.dtype), len(values)
    if values.dtype == np.bool_:
        values = np.packbits(values, bitorder="little")
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(np.ascontiguousarray(values))])


def _texts(texts: list[bytes]) -> pa.Array:
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return _text_array(ends, b"".join(texts))


def _text_array(offsets: npt.NDArray[np.int64], blob: bytes) -> pa.Array:
    is_small = len(blob) < 1 << 31
    kind, width = (pa.string(), np.int32) if is_small else (pa.large_string(), np.int64)
    offset_buffer = pa.py_buffer(np.ascontiguousarray(offsets, dtype=width))
    return pa.Array.from_buffers(kind, len(offsets) - 1, [None, offset_buffer, pa.py_buffer(blob)])


def names_array(names: Names) -> pa.Array:
    """The name table as an Arrow string column; invalid UTF-8 is replaced."""
    blob = bytes(names.blob)
    try:
        blob.decode("utf-8")
    except UnicodeDecodeError:
        return _texts([text.encode("utf-8", "replace") for text in names])
    return _text_array(names.offsets, blob)


def _name(names: Names, row: int) -> str | None:
    return names[row].encode("utf-8", "replace").decode() if row >= 0 else None


def _label(labels: dict[int, str], code: int) -> str | None:
    """Label of a code; its number without one, null for -1."""
    return labels.get(code, str(code) if code >= 0 else None)


def _dictionary(codes: npt.NDArray[Any], text_of: Callable[[int], str | None]) -> pa.Array:
    """Codes as dictionary-encoded text, each text once; null for None."""
    groups = group_rows(codes)
    texts = [text_of(code) for code in groups.columns[0].tolist()]
    # Two codes may have the same text; values of an Arrow dictionary must differ.
    distinct = list(dict.fromkeys(text for text in texts if text is not None))
    number = {text: i for i, text in enumerate(distinct)}
    numbers = np.array([-1 if t is None else number[t] for t in texts], dtype=np.int32)
    indices = numbers[groups.group]
    return pa.DictionaryArray.from_arrays(
        pa.array(indices, pa.int32(), mask=indices < 0), pa.array(distinct, pa.string())
    )


class ArrowColumns(Protocol):
    """Arrow columns by name: a table, or a file whose columns are read one by one."""

    @property
    def column_names(self) -> list[str]:
        """Names of all columns."""

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        """The column of that name."""


def table_from_arrow(schema: TableSchema, data: ArrowColumns) -> Table:
    """A table of a trace from Arrow columns, without ``id`` and unknown columns.

    Raises:
        pyarrow.ArrowException: a column cannot be read as the schema's dtype.
        ValueError: a column is missing, or has rows without a value.
    """
    present = _present_columns(schema, data.column_names)
    return Table(schema, {name: column_from_arrow(schema, data, name) for name in present})


def _present_columns(schema: TableSchema, names: Iterable[str]) -> list[str]:
    """Columns of the schema that are in ``names``; ValueError if a required one is missing."""
    present = {*names}
    for column in schema.columns:
        if column.required and column.name not in present:
            raise ValueError(f"it has no column called {column.name}")
    return [column.name for column in schema.columns if column.name in present]


def column_from_arrow(schema: TableSchema, data: ArrowColumns, name: str) -> Any:
    """One column, as in :func:`table_from_arrow`."""
    column, chunks = schema.column(name), data[name]
    if chunks.null_count and (column.is_list or column.required or column.default != -1):
        raise ValueError(f"{name} has rows without a value")
    array = in_one(chunks)
    if column.dtype == "string":
        text = array if is_text(array.type) else array.cast(pa.string())
        return np.array(text.to_pylist(), dtype=object)
    if column.is_list:
        is_read = _is_ragged(array.type) and array.type.value_type == pa.int64()
        array = array if is_read else array.cast(pa.large_list(pa.int64()))
        offsets = numbers_of(array.offsets).astype(np.int64)
        values = numbers_of(array.values)[offsets[0] : offsets[-1]]
        return ListColumn(offsets - offsets[0], values)
    dtype = np.dtype(column.dtype)
    if array.null_count:  # other programs write null for "none"
        array = array.fill_null(column.default)
    kind = pa.from_numpy_dtype(dtype)
    numbers = numbers_of(array if array.type == kind else array.cast(kind))
    return numbers if column.required else _broadcast_if_constant(numbers)


def _broadcast_if_constant(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if len(numbers) < _MIN_ROWS_TO_CHECK or (numbers[:: len(numbers) // 16] != numbers[0]).any():
        return numbers
    if (numbers != numbers[0]).any():
        return numbers
    return np.broadcast_to(numbers[:1].copy(), numbers.shape)


def _is_ragged(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
