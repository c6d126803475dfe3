"""Arrow, with an error if it is not installed, and readers of Arrow columns.

The readers avoid Arrow's compute functions: importing those creates hundreds of Python functions
and takes as long as all other imports. Recording needs only NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.errors import not_installed

try:
    import pyarrow as pa
except ImportError as error:
    raise not_installed("pyarrow", "Reading and saving traces, SQL and tables of Arrow") from error

__all__ = ["pa"]


def numbers_of(array: pa.Array) -> npt.NDArray[Any]:
    """Values of an Arrow array without nulls, read-only; booleans are copied.

    ``to_numpy`` imports pandas first, which takes a quarter of a second and swallows a Ctrl-C.
    """
    dtype, values = np.dtype(array.type.to_pandas_dtype()), array.buffers()[1]
    if values is None or not len(array):
        return np.zeros(0, dtype=dtype)
    if dtype == np.bool_:
        bits = np.unpackbits(np.frombuffer(values, dtype=np.uint8), bitorder="little")
        return bits[array.offset : array.offset + len(array)].astype(np.bool_)
    return np.frombuffer(values, dtype, len(array), array.offset * dtype.itemsize)


def is_text(kind: pa.DataType) -> bool:
    """Whether columns of this type hold texts, plain or dictionary-encoded."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def text_bytes(array: pa.Array) -> tuple[npt.NDArray[np.int64], bytes]:
    """Texts of an Arrow array without nulls: offsets, shape (texts + 1,), and their UTF-8 bytes."""
    if pa.types.is_dictionary(array.type):
        offsets, blob = text_bytes(array.dictionary)
        rows = numbers_of(array.indices)
        if len(rows) == len(offsets) - 1 and (rows == np.arange(len(rows))).all():
            return offsets, blob
        texts = [blob[offsets[row] : offsets[row + 1]] for row in rows.tolist()]
        return np.cumsum([0, *map(len, texts)], dtype=np.int64), b"".join(texts)
    if not len(array):
        return np.zeros(1, dtype=np.int64), b""
    _, offset_buffer, data = array.buffers()
    width = np.dtype(np.int64 if pa.types.is_large_string(array.type) else np.int32)
    offsets = np.frombuffer(offset_buffer, width, len(array) + 1, array.offset * width.itemsize)
    first, last = int(offsets[0]), int(offsets[-1])
    blob = b"" if data is None else data.slice(first, last - first).to_pybytes()
    return offsets.astype(np.int64) - first, blob


def in_one(column: pa.ChunkedArray) -> pa.Array:
    """One array of all chunks of a column."""
    if column.num_chunks == 1:  # `combine_chunks` would copy it
        return column.chunk(0)
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # no chunks, or too long for one array
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array
