"""How many values a Parquet file says it holds, read from its footer alone.

Arrow would tell, but ends the process when a damaged footer contradicts itself (its own reading of
such a file ends in an error, as it should). The footer is a Thrift structure in the compact
protocol: fields by number, of which two lists and two counts are wanted here.
"""

from __future__ import annotations

import os
from typing import Any, BinaryIO

_MAGIC = b"PAR1"
_TAIL_BYTES = 8  # length of the footer and the magic
_MOST_BYTES = 1 << 26
_DEEPEST = 32

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)

# Fields of parquet.thrift.
_ROW_GROUPS = 4  # of FileMetaData
_COLUMNS = 1  # of RowGroup
_META_DATA = 3  # of ColumnChunk
_NUM_VALUES, _UNCOMPRESSED = 5, 6  # of ColumnMetaData


def unpacked_bytes(file: BinaryIO) -> int:
    """What all columns take at most in memory: eight bytes a value, or their pages if larger.

    Raises:
        ValueError: there is no footer, or it is damaged.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - _TAIL_BYTES, 0))
    tail = file.read(_TAIL_BYTES)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or not 0 < length <= min(size - _TAIL_BYTES, _MOST_BYTES):
        raise ValueError("it is no Parquet file, or its end is missing")
    file.seek(size - _TAIL_BYTES - length)
    try:
        footer = _Footer(file.read(length)).struct(0)
        columns = [column for group in footer[_ROW_GROUPS] for column in group[_COLUMNS]]
        return sum(_bytes_of(column[_META_DATA]) for column in columns)
    except (IndexError, KeyError, TypeError, AttributeError) as error:
        raise ValueError("its footer is damaged") from error
    finally:
        file.seek(0)


def _bytes_of(column: dict[int, Any]) -> int:
    values, pages = column[_NUM_VALUES], column[_UNCOMPRESSED]
    if values < 0 or pages < 0:
        raise ValueError("its footer is damaged")
    return int(max(values * 8, pages))


class _Footer:
    """Reads Thrift's compact protocol from the start of ``data``."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def struct(self, depth: int) -> dict[int, Any]:
        """The fields of the structure that begins here, by number."""
        if depth > _DEEPEST:
            raise ValueError("its footer is nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != 0:
            step, kind = head >> 4, head & 15
            number = number + step if step else self._signed()
            fields[number] = (
                kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth + 1)
            )
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE, _BYTE):  # inside a list even a truth value is a byte
            return self._byte()
        if kind in (_I16, _I32, _I64):
            return self._signed()
        if kind == _DOUBLE:
            return self._skip(8)
        if kind == _BINARY:
            return self._skip(self._varint())
        if kind in (_LIST, _SET):
            return self._list(depth)
        if kind == _STRUCT:
            return self.struct(depth)
        raise ValueError("its footer is damaged")  # Parquet has no maps

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        count = head >> 4
        if count == 15:
            count = self._varint()
        return [self._value(head & 15, depth) for _ in range(count)]

    def _byte(self) -> int:
        value = self._data[self._at]
        self._at += 1
        return value

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("its footer is damaged")

    def _signed(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _skip(self, length: int) -> None:
        self._at += length
        if self._at > len(self._data):
            raise ValueError("its footer is damaged")
