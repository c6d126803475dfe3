"""The columns that opscope puts at the end of its own Chrome files, behind the rows.

Rows of a Chrome file do not say which span is inside which, which tensor is which, or what was in
memory before. Other tools ignore this key; opscope reads it instead of the rows, if the rows are
those that were written with it. Text of source lines stays out: the rows show none either.
"""

from __future__ import annotations

import binascii
import json
import zlib

from opscope.errors import TraceFormatError
from opscope.trace.packed import packed, unpacked
from opscope.trace.trace import Trace
from opscope.trace.unknown_codes import ledger_with

KEY = "opscope"
_FORMAT = 1
_LEFT_OUT = ("source_lines",)
_BEGIN = f'"{KEY}": {{"rows": '.encode()
_DAMAGED = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, OSError),
    *(RecursionError, TraceFormatError, binascii.Error, zlib.error),
)


class RowsWritten:
    """How many bytes stand before the columns, and their checksum: what they belong to."""

    def __init__(self) -> None:
        self.size, self.checksum = 0, 0

    def add(self, block: bytes | memoryview) -> None:
        """The next bytes of the file."""
        self.size += len(block)
        self.checksum = zlib.crc32(block, self.checksum)


def with_own_columns(trace: Trace, rows: RowsWritten, end: str) -> str:
    """``end`` of a file in which ``rows`` come before, with the columns in front if it has any.

    Only of what opscope recorded: a file of another tool is written as it was. What a recording
    was asked to leave out of its files stays out of this too.
    """
    metadata = trace.metadata
    if "options" not in metadata or metadata.get("left_out"):
        return end
    value = {
        "format": _FORMAT,
        "left_out": {name: len(trace.table(name)) for name in _LEFT_OUT if len(trace.table(name))},
        **packed(trace, _LEFT_OUT),
    }
    rest = f"{json.dumps(value)[1:]},{end}"
    checksums = [rows.size, rows.checksum, zlib.crc32(rest.encode())]
    return f"{_BEGIN.decode()}{checksums}, {rest}"


def trace_in(raw: bytes, source: str) -> Trace | None:
    """The trace that the columns in a file are of; None where there are none that fit its rows.

    Raises:
        InsufficientMemoryError: it does not fit in memory.
    """
    begin = raw.rfind(_BEGIN)
    if begin < 0:
        return None
    rows = RowsWritten()
    rows.add(memoryview(raw)[:begin])
    try:
        value = json.loads(b"{" + raw[begin:])[KEY]
        size, checksum, rest = value["rows"]
        is_whole = zlib.crc32(memoryview(raw)[raw.index(b"], ", begin) + 3 :]) == rest
        if [size, checksum] != [rows.size, rows.checksum] or not is_whole:
            return None
        if value["format"] != _FORMAT:
            return None
        trace = unpacked(value, source)
        missing = {f"dropped: {name}, which the file leaves out": n
                   for name, n in value["left_out"].items()}  # fmt: skip
    except _DAMAGED:
        return None
    if not missing:
        return trace
    ledger = ledger_with(trace.table("ledger"), missing, "import")
    return trace.with_tables({"ledger": ledger})
