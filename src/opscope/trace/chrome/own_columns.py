"""The columns that opscope puts at the end of its own Chrome files, behind the rows.

Rows of a Chrome file do not say which span is inside which, which tensor is which, or what was in
memory before. Other tools ignore this key; opscope reads it instead of the rows, if the rows are
those that were written with it. Text of source lines stays out: the rows show none either.
"""

from __future__ import annotations

import binascii
import json
import zlib
from typing import Any

from opscope import _native
from opscope.errors import TraceFormatError
from opscope.trace.packed import packed, unpacked
from opscope.trace.trace import Trace
from opscope.trace.unknown_codes import ledger_with

KEY = "opscope"
_FORMAT = 2
_LEFT_OUT = ("source_lines",)
_BEGIN = f'"{KEY}": {{"rows": '.encode()
_DAMAGED = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, OSError),
    *(RecursionError, TraceFormatError, binascii.Error, zlib.error),
)


class RowsWritten:
    """How many bytes stand before the columns, and their checksum: what they belong to."""

    def __init__(self) -> None:
        self.size, self._checksum = 0, _native.Checksum()

    def add(self, block: bytes | memoryview) -> None:
        """The next bytes of the file."""
        self.size += len(block)
        self._checksum.add(block)

    @property
    def checksum(self) -> int:
        """Of the bytes so far."""
        return self._checksum.value


def own_columns(trace: Trace) -> str:
    """The columns of ``trace`` as text for :func:`with_own_columns`; empty if it has none.

    Only of what opscope recorded: a file of another tool is written as it was. What a recording
    was asked to leave out of its files stays out of this too.
    """
    metadata = trace.metadata
    if "options" not in metadata or metadata.get("left_out"):
        return ""
    value: dict[str, Any] = {
        "format": _FORMAT,
        "left_out": {name: len(trace.table(name)) for name in _LEFT_OUT if len(trace.table(name))},
        **packed(trace, _LEFT_OUT),
    }
    return json.dumps(value)[1:]


def with_own_columns(columns: str, rows: RowsWritten, end: str) -> str:
    """``end`` of a file that has ``rows`` in front, with ``columns`` between if there are any."""
    if not columns:
        return end
    rest = f"{columns},{end}"
    checksums = [rows.size, rows.checksum, _checksum(rest.encode())]
    return f"{_BEGIN.decode()}{checksums}, {rest}"


def _checksum(block: bytes | memoryview) -> int:
    checksum = _native.Checksum()
    checksum.add(block)
    return checksum.value


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
        is_whole = _checksum(memoryview(raw)[raw.index(b"], ", begin) + 3 :]) == rest
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
