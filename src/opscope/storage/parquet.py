"""Tables as Parquet files: encodings of columns, and reading within the memory limit.

Encodings were measured on training loops, in bytes per event. DuckDB, Polars, pandas and Spark 3
read all of them. Byte-stream-split saves one more byte per event; Spark 3 lacks it for integers.

Parquet packs a billion equal values into a few bytes. So the manifest has a table's size in memory,
and a table that does not fit is not unpacked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from opscope.base.arrow import in_one, is_text, numbers_of, pa, text_bytes
from opscope.base.input_file import checked_in_folder
from opscope.base.memory_limit import require_memory
from opscope.columns.names import Names
from opscope.columns.schema import TABLES
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.errors import OpscopeError, not_installed
from opscope.storage.interop import has_id, table_from_arrow, to_arrow
from opscope.storage.manifest import damaged_file

try:
    import pyarrow.parquet as pq
except ImportError as error:
    raise not_installed("pyarrow", "Reading and saving traces") from error

__all__ = ["QUICK", "ParquetColumns", "RowGroupWriter", "damage_of", "names_in", "pq",
           "read_table", "read_whole", "write_table", "writer_options"]  # fmt: skip

COMPRESSION_LEVEL = 3
"""zstd; 6 saves 6 % and takes 1.5 times as long, 9 saves no more and takes twice as long."""

QUICK = 1  # for files that are read once and written again

DELTA = frozenset({
    "id", "start_ns", "time_ns", "parent", "tensors.event", "scalars.event", "python_calls.event",
    "operator_calls.event", "allocations.event", "allocations.allocation_id",
    "allocations.tensor_id",
})  # fmt: skip
"""Columns (of one table, or of any) that nearly ascend: a difference takes a few bits."""

PLAIN = frozenset({
    "impl", "storage", "storage_impl", "address", "class_address", "tensors.tensor_id",
    "tensors.allocation_id", "total_allocated_bytes", "events.name", "sequence_number",
    "python_calls.frame", "caller", "caller_line", "tensors.argument",
})  # fmt: skip
"""Columns that repeat with the training step: addresses, identities, sums, call sites. zstd finds
the repetition in plain bytes (1.9 bytes per event for ``impl``), but not in the packed indices of a
dictionary (2.9). Reading a million names takes 0.35 ms instead of 1.2."""

FEW_ROWS_WRITTEN = 2000  # in a smaller table a dictionary takes more room than it saves
_MANY_ROWS = 100_000  # larger files store minimum and maximum of each column
_ROWS_OF_PAGE = 1 << 17
"""zstd starts anew on each page, and readers allocate memory for each: with Arrow's default of
20,000 rows, files are a sixth larger and take a fifth longer to read."""

ROW_GROUP = 1 << 20  # rows that a reader can skip at once by minimum and maximum
_TEXT = frozenset({"text", "source", "what", "key", "value"})
"""Columns of text, read as dictionaries: a repeated text is in memory once until the size check."""

_MAX_ROWS = (1 << 31) - 1  # references to rows have 32 bits
FEW_ROWS = 100_000  # smaller files are read at once, which is faster
_VALUE_BYTES = 8  # maximum size of a number
_MIN_CHECKED_BYTES = 10 << 20
"""A check of the system's free memory takes as long as reading a small file."""

_NO_NAMES = Names.from_strings([])


def write_table(
    trace: TraceData, name: str, folder: Path, level: int = COMPRESSION_LEVEL
) -> tuple[str, dict[str, int]]:
    """Write one table into a folder; returns its name and its entry in the manifest."""
    data = _without_nulls(to_arrow(trace, name, text=False))
    file = folder / f"{name}.parquet"
    options = {**writer_options(name, data), "compression_level": level}
    pq.write_table(data, file, row_group_size=ROW_GROUP, **options)
    size = file.stat().st_size
    return name, {"rows": data.num_rows, "bytes": size, "memory_bytes": data.nbytes}


def read_table(folder: Path, name: str, rows: int) -> Table:
    """A table that opscope has just written; empty for ``rows`` 0."""
    schema = TABLES[name]
    if not rows:
        return Table(schema, {})
    return table_from_arrow(schema, read_whole(folder / f"{name}.parquet"))


class RowGroupWriter:
    """Writes one table of a trace in pieces; the file is as from `write_table`."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._file = folder / f"{name}.parquet"
        self._writer: pq.ParquetWriter | None = None
        self._rows = self._memory_bytes = 0

    def add(self, table: Table) -> None:
        """Write these rows next."""
        if not len(table):
            return
        data = to_arrow(TraceData({self._name: table}, _NO_NAMES), self._name, text=False)
        if has_id(self._name):
            ids = pa.array(np.arange(self._rows, self._rows + len(table)), data["id"].type)
            data = data.set_column(0, "id", ids)
        data = _without_nulls(data)
        if self._writer is None:
            options = {**writer_options(self._name, data), "write_statistics": True}
            self._writer = pq.ParquetWriter(self._file, data.schema, **options)
        self._writer.write_table(data.cast(self._writer.schema))
        self._rows += len(table)
        self._memory_bytes += data.nbytes

    def close(self) -> dict[str, int] | None:
        """End the file; returns its entry in the manifest, None without rows."""
        if self._writer is None:
            return None
        self._writer.close()
        size = self._file.stat().st_size
        return {"rows": self._rows, "bytes": size, "memory_bytes": self._memory_bytes}


def _without_nulls(data: pa.Table) -> pa.Table:
    """Table with columns declared free of nulls, as columns of a trace always are.

    Columns that permit nulls have a level for each row, which takes as long to read as the values.
    """
    columns = [_full_lists(column) for column in data.columns]
    fields = [
        pa.field(name, column.type, nullable=False)
        for name, column in zip(data.column_names, columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _full_lists(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_large_list(column.type):
        return column
    inner = pa.large_list(pa.field("element", column.type.value_type, nullable=False))
    lists = [
        pa.LargeListArray.from_arrays(chunk.offsets, chunk.values, type=inner)
        for chunk in column.chunks
    ]
    return pa.chunked_array(lists, inner)


def writer_options(table: str, data: pa.Table) -> dict[str, Any]:
    """Keyword arguments of ``pyarrow.parquet.write_table`` for one table of a trace.

    Columns that neither ascend nor repeat with the step get a dictionary: they have few distinct
    values, and otherwise Parquet falls back to plain.
    """
    encodings: dict[str, str] = {}
    dictionary: list[str] = []
    for field in data.schema:
        choices = {field.name, f"{table}.{field.name}"}
        if choices & DELTA:
            encodings[field.name] = "DELTA_BINARY_PACKED"
        elif choices & PLAIN:
            encodings[field.name] = "PLAIN"
        elif data.num_rows >= FEW_ROWS_WRITTEN:
            is_list = pa.types.is_list(field.type) or pa.types.is_large_list(field.type)
            dictionary.append(f"{field.name}.list.element" if is_list else field.name)
    return {
        "compression": "zstd",
        "compression_level": COMPRESSION_LEVEL,
        "column_encoding": encodings,
        "use_dictionary": dictionary or False,
        # With statistics readers skip groups and constant columns. In a trace of a few steps they
        # would be a sixth of the file.
        "write_statistics": data.num_rows >= _MANY_ROWS,
        # With the schema, a reader in Arrow would get our in-memory types. The contract is the
        # Parquet types, and the schema takes 1 to 3 kB per file.
        "store_schema": False,
        "write_page_checksum": True,
        **_page_options(),
    }


@cache
def _page_options() -> dict[str, int]:
    is_supported = "max_rows_per_page" in signature(pq.write_table).parameters
    return {"max_rows_per_page": _ROWS_OF_PAGE} if is_supported else {}


def read_whole(path: Path) -> pa.Table:
    """Read a whole file that opscope has just written, or whose size was checked.

    ``pyarrow.parquet.read_table`` imports pandas, which is slow and fails at exit.

    Raises:
        pyarrow.ArrowException, OSError: it is damaged.
        TraceFormatError: it is not a plain file.
    """
    with pq.ParquetFile(checked_in_folder(path)) as file:
        return file.read()


class ParquetColumns:
    """The columns of an open file. A long file is read column by column on use.

    Arrow's memory for a column is free for the next.
    """

    def __init__(self, file: BinaryIO, rows: int, source: str, memory_bytes: int = 0) -> None:
        """Open ``file``, which should have ``rows`` rows; errors name it ``source``.

        ``memory_bytes``: size in memory if its writer stored it.

        Raises:
            ValueError: it has another number of rows, or is damaged.
            pyarrow.ArrowException, OSError: it is damaged.
            InsufficientMemoryError: it does not fit in memory.
        """
        parquet = _parquet_file(file)
        fields = parquet.schema_arrow
        if len(set(fields.names)) < len(fields):
            raise ValueError("it has two columns with the same name")
        self._texts = {f.name for f in fields if f.name in _TEXT and is_text(f.type)}
        if self._texts:
            parquet = _parquet_file(file, read_dictionary=sorted(self._texts))
        if parquet.metadata.num_rows != rows:
            raise ValueError(f"it has {parquet.metadata.num_rows} rows, not {rows}")
        if rows > _MAX_ROWS:
            raise ValueError(f"it has {rows:,} rows, but the limit is {_MAX_ROWS:,}")
        self.column_names: list[str] = list(fields.names)
        self._parquet, self.rows, self._source = parquet, rows, source
        self._require_memory(max(memory_bytes, rows * len(fields) * _VALUE_BYTES))
        self._read = self._columns() if rows <= FEW_ROWS else None

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        """Read a whole column."""
        if name not in self.column_names:
            raise KeyError(name)
        data = self._columns([name]) if self._read is None else self._read
        if data.num_rows != self.rows:
            raise ValueError(f"it has {data.num_rows} rows, not {self.rows}")
        column = data[name]
        if name in self._texts:
            self._require_memory(_text_bytes(column))
        return column

    def _columns(self, names: list[str] | None = None) -> pa.Table:
        return self._parquet.read(names, use_threads=False)

    def _require_memory(self, needed_bytes: int) -> None:
        if needed_bytes >= _MIN_CHECKED_BYTES:
            require_memory(needed_bytes, f"reading {self._source}")


def _parquet_file(file: BinaryIO, **options: Any) -> pq.ParquetFile:
    """A Parquet reader on a Python file, which only the calling thread reads.

    Arrow's own threads release data shortly after they pass it on. If the program ends at that
    moment, Python is gone and the process aborts.
    """
    return pq.ParquetFile(file, page_checksum_verification=True, pre_buffer=False, **options)


def _text_bytes(column: pa.ChunkedArray) -> int:
    """Bytes of the texts of a column if each row has its own copy."""
    total = 0
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):
            lengths = np.diff(text_bytes(chunk.dictionary)[0])
            rows = numbers_of(chunk.indices)  # any value in rows without text
            total += int(lengths[rows[(rows >= 0) & (rows < len(lengths))]].sum())
    return total


@contextmanager
def damage_of(file: Path) -> Iterator[None]:
    """Re-raise read errors as errors that name the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise damaged_file(file, "it is missing") from error
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
        if isinstance(error, OpscopeError | MemoryError):
            raise
        reason = next(iter(str(error).splitlines()), "unreadable")
        raise damaged_file(file, reason) from error


def names_in(data: Any) -> Names:
    """The texts of a table of names.

    Raises:
        ValueError: it has no texts, or rows without text.
    """
    text = data["text"] if "text" in data.column_names else None
    if text is None or not is_text(text.type):
        raise ValueError("it has no column of text")
    if text.null_count:
        raise ValueError("it has rows without a text")
    return Names(*text_bytes(in_one(text)))
