"""One Parquet file into memory, if it holds what it claims and that fits.

Parquet packs a billion equal values into a few bytes, so what a file takes in memory is counted
before it is unpacked.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from opscope.memory_limit import require_memory
from opscope.trace.arrow import pa
from opscope.trace.arrow_parquet import pq
from opscope.trace.parquet_footer import unpacked_bytes

_TEXT = frozenset({"text", "source", "what", "key", "value"})
"""Columns of text: what is repeated in one is kept once until it is known how much it is."""

_MOST_ROWS = (1 << 31) - 1
"""Rows are referred to by 32 bits."""


def read_whole(path: Path) -> pa.Table:
    """All of a file that opscope itself has just written, or whose size was checked.

    ``pyarrow.parquet.read_table`` imports pandas, which takes long and cannot be done while a
    program ends.

    Raises:
        pyarrow.ArrowException, OSError: it is damaged.
    """
    with pq.ParquetFile(path) as file:
        return file.read()


def read_parquet(file: BinaryIO, rows: int, source: str) -> pa.Table:
    """All of ``file``, which should have ``rows`` rows.

    Raises:
        ValueError: it has not, or is damaged.
        pyarrow.ArrowException, OSError: it is damaged.
        InsufficientMemoryError: it does not fit in memory.
    """
    needed_bytes = unpacked_bytes(file)
    parquet = pq.ParquetFile(file, page_checksum_verification=True)
    fields = parquet.schema_arrow
    if len(set(fields.names)) < len(fields):
        raise ValueError("it has two columns of one name")
    texts = [field.name for field in fields if field.name in _TEXT and _is_text(field.type)]
    if texts:
        parquet = pq.ParquetFile(file, page_checksum_verification=True, read_dictionary=texts)
    described = parquet.metadata
    if described.num_rows != rows:
        raise ValueError(f"it has {described.num_rows} rows, not {rows}")
    if rows > _MOST_ROWS:
        raise ValueError(f"it has {rows:,} rows, and a trace at most {_MOST_ROWS:,} of a table")
    require_memory(needed_bytes, f"reading {source}")
    data = parquet.read()
    if data.num_rows != rows:
        raise ValueError(f"it has {data.num_rows} rows, not {rows}")
    require_memory(sum(_text_bytes(data[name]) for name in texts), f"reading {source}")
    return data


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _text_bytes(column: pa.ChunkedArray) -> int:
    """What the texts of a column take once each row has its own."""
    # Makes a Python function of each of Arrow's hundreds, which takes as long as all other imports;
    # whoever only writes traces needs none.
    import pyarrow.compute as pc

    total = 0
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):
            lengths = pc.binary_length(chunk.dictionary).cast(pa.int64())
            total += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return total
