"""Protocol buffer messages as bytes: enough to describe the tracks of a Perfetto trace."""

from __future__ import annotations

Value = int | str | bytes | bool


def message(*fields: tuple[int, Value]) -> bytes:
    """Fields by number, in order: integers (varints), texts, or messages made by this function."""
    return b"".join(_field(number, value) for number, value in fields)


def _field(number: int, value: Value) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(int(value) % 2**64)
    data = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    """A number in as few bytes as it takes."""
    result = bytearray()
    while value >= 0x80:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)
