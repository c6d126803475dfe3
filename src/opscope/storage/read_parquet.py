"""Parquet files into memory, if they hold what they claim and that fits.

Parquet packs a billion equal values into a few bytes, so the manifest says what a table takes in
memory, and nothing is unpacked that does not fit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from opscope.base.arrow import pa
from opscope.base.input_file import checked_in_folder
from opscope.base.memory_limit import require_memory
from opscope.columns.arrow_values import is_text, numbers_of, text_bytes
from opscope.storage.arrow_parquet import pq

_TEXT = frozenset({"text", "source", "what", "key", "value"})
"""Columns of text: what is repeated in one is kept once until it is known how much it is."""

_MOST_ROWS = (1 << 31) - 1
"""Rows are referred to by 32 bits."""

FEW_ROWS = 100_000
"""Of so many rows all columns are read at once: reading each by itself takes a moment, too."""

_VALUE_BYTES = 8
"""What a number takes at most."""

_WORTH_A_LOOK_BYTES = 10 << 20
"""To ask the system how much memory is left takes as long as reading a small file does."""


def read_whole(path: Path) -> pa.Table:
    """All of a file that opscope itself has just written, or whose size was checked.

    ``pyarrow.parquet.read_table`` imports pandas, which takes long and cannot be done while a
    program ends.

    Raises:
        pyarrow.ArrowException, OSError: it is damaged.
        TraceFormatError: it is no plain file.
    """
    with pq.ParquetFile(checked_in_folder(path)) as file:
        return file.read()


class ParquetColumns:
    """The columns of an open file. Those of a long one are read one by one, as they are asked for:
    the memory that Arrow unpacks one into is there again for the next.

    Attributes:
        column_names: in the order of the file.
        rows: of each.
    """

    def __init__(self, file: BinaryIO, rows: int, source: str, memory_bytes: int = 0) -> None:
        """``file`` should have ``rows`` rows; errors name it ``source``.

        Args:
            file: open, at its beginning.
            rows: how many it should have.
            source: what errors call it.
            memory_bytes: what all columns take, as far as the writer said so.

        Raises:
            ValueError: it has not, or is damaged.
            pyarrow.ArrowException, OSError: it is damaged.
            InsufficientMemoryError: it does not fit in memory.
        """
        parquet = _opened(file)
        fields = parquet.schema_arrow
        if len(set(fields.names)) < len(fields):
            raise ValueError("it has two columns of one name")
        self._texts = {f.name for f in fields if f.name in _TEXT and is_text(f.type)}
        if self._texts:
            texts = sorted(self._texts)
            parquet = _opened(file, read_dictionary=texts)
        if parquet.metadata.num_rows != rows:
            raise ValueError(f"it has {parquet.metadata.num_rows} rows, not {rows}")
        if rows > _MOST_ROWS:
            raise ValueError(f"it has {rows:,} rows, and a trace at most {_MOST_ROWS:,} of a table")
        self.column_names: list[str] = list(fields.names)
        self._parquet, self.rows, self._source = parquet, rows, source
        self._require_memory(max(memory_bytes, rows * len(fields) * _VALUE_BYTES))
        self._read = _columns_of(parquet) if rows <= FEW_ROWS else None

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        """All of a column.

        Raises:
            KeyError: there is none of this name.
            ValueError, pyarrow.ArrowException, OSError, InsufficientMemoryError: as above.
        """
        if name not in self.column_names:
            raise KeyError(name)
        data = self._read
        if data is None:
            data = _columns_of(self._parquet, [name])
        if data.num_rows != self.rows:
            raise ValueError(f"it has {data.num_rows} rows, not {self.rows}")
        column = data[name]
        if name in self._texts:
            self._require_memory(_text_bytes(column))
        return column

    def _require_memory(self, needed_bytes: int) -> None:
        if needed_bytes >= _WORTH_A_LOOK_BYTES:
            require_memory(needed_bytes, f"reading {self._source}")

    def constant(self, name: str) -> int | None:
        """The value that every row of a long column of integers or truths has, where the file says
        that all are equal without their being read; else None.

        Of floats it never says so, since NaN is in no statistics.
        """
        if self._read is not None or not self.rows or name not in self.column_names:
            return None
        metadata, place = self._parquet.metadata, self.column_names.index(name)
        found: set[int] = set()
        for group in range(metadata.num_row_groups):
            column = metadata.row_group(group).column(place)
            said = column.statistics if column.path_in_schema == name else None
            if said is None or not said.has_min_max or said.null_count != 0:
                return None
            if type(said.min) not in (int, bool):
                return None
            found |= {said.min, said.max}
        return found.pop() if len(found) == 1 else None


def _opened(file: BinaryIO, **options: Any) -> pq.ParquetFile:
    """A file of Python's, which only the thread that asks reads.

    Arrow's own threads let go of what they read a moment after it was handed over. Where the
    program ends in that moment they find no Python any more, and the process is aborted.
    """
    return pq.ParquetFile(file, page_checksum_verification=True, pre_buffer=False, **options)


def _columns_of(parquet: pq.ParquetFile, names: list[str] | None = None) -> pa.Table:
    return parquet.read(names, use_threads=False)


def _text_bytes(column: pa.ChunkedArray) -> int:
    """What the texts of a column take once each row has its own."""
    total = 0
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):
            lengths = np.diff(text_bytes(chunk.dictionary)[0])
            rows = numbers_of(chunk.indices)  # anything where a row has no text
            total += int(lengths[rows[(rows >= 0) & (rows < len(lengths))]].sum())
    return total
