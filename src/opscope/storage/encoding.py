"""How each column is written to Parquet: measured on training loops, in bytes per event.

All choices are ones that DuckDB, Polars, pandas and Spark 3 read. Byte-stream-split would save
another byte per event, but Spark 3 does not read it for integers.
"""

from __future__ import annotations

from functools import cache
from inspect import signature
from typing import Any

from opscope.base.arrow import pa

COMPRESSION_LEVEL = 3
"""zstd; 6 saves 6 % and takes half as long again, 9 saves no more and takes twice as long."""

DELTA = frozenset({
    "id", "start_ns", "time_ns", "parent", "tensors.event", "scalars.event", "python_calls.event",
    "operator_calls.event", "allocations.event", "allocations.allocation_id",
    "allocations.tensor_id",
})  # fmt: skip
"""Columns (of one table, or of any) that nearly ascend: a difference fits in a few bits."""

PLAIN = frozenset({
    "impl", "storage", "storage_impl", "address", "class_address", "tensors.tensor_id",
    "tensors.allocation_id", "total_allocated_bytes", "events.name", "sequence_number",
    "python_calls.frame", "caller", "caller_line", "tensors.argument",
})  # fmt: skip
"""What repeats with the training step: addresses, identities, sums, and what is called from where.
zstd sees that in plain bytes (1.9 bytes per event for ``impl``) and not in a dictionary's packed
indices (2.9), and reading a million names takes 0.35 ms instead of 1.2."""

FEW_ROWS = 2000
"""In a table of fewer rows a dictionary takes more room than it saves."""

_MANY_ROWS = 100_000
"""Of so many, what a column's least and greatest value take is nothing beside the file."""

_ROWS_OF_PAGE = 1 << 17
"""Each page begins anew for zstd, and readers allocate for each: of those of 20,000 rows, as Arrow
writes them by itself, files are a sixth larger and take a fifth longer to read."""

ROW_GROUP = 1 << 20
"""Rows that a reader can skip at once, by their smallest and largest values."""


def without_nulls(data: pa.Table) -> pa.Table:
    """The same table, whose columns say that every row has a value, as those of a trace all do.

    What may be null is written with a level for each row, and reading these takes as long as
    reading the values.
    """
    columns = [_full_lists(column) for column in data.columns]
    fields = [
        pa.field(name, column.type, nullable=False)
        for name, column in zip(data.column_names, columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _full_lists(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Lists of values none of which is null; other columns as they are."""
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

    Columns that are neither ascending nor addresses get a dictionary: they hold few distinct
    values, and Parquet falls back to plain by itself where they do not.
    """
    encodings: dict[str, str] = {}
    dictionary: list[str] = []
    for field in data.schema:
        choices = {field.name, f"{table}.{field.name}"}
        if choices & DELTA:
            encodings[field.name] = "DELTA_BINARY_PACKED"
        elif choices & PLAIN:
            encodings[field.name] = "PLAIN"
        elif data.num_rows >= FEW_ROWS:
            dictionary.append(_leaf(field))
    return {
        "compression": "zstd",
        "compression_level": COMPRESSION_LEVEL,
        "column_encoding": encodings,
        "use_dictionary": dictionary or False,
        "row_group_size": ROW_GROUP,
        # Statistics let readers skip groups, and columns that are one value throughout. In the
        # trace of a few steps they would be a sixth of the file.
        "write_statistics": data.num_rows >= _MANY_ROWS,
        # Without this, a reader in Arrow would get our in-memory types; the Parquet ones are the
        # contract, and the copy of the schema is 1 to 3 kB per file.
        "store_schema": False,
        "write_page_checksum": True,
        **_page_options(),
    }


@cache
def _page_options() -> dict[str, int]:
    """How long a page is, where that can be said; older Arrow has no limit but bytes."""
    from opscope.storage.arrow_parquet import pq

    known = "max_rows_per_page" in signature(pq.write_table).parameters
    return {"max_rows_per_page": _ROWS_OF_PAGE} if known else {}


def _leaf(field: pa.Field) -> str:
    """What Parquet calls the column that holds the values."""
    ragged = pa.types.is_list(field.type) or pa.types.is_large_list(field.type)
    return f"{field.name}.list.element" if ragged else str(field.name)
