"""The columns that opscope puts at the end of its own Chrome files, behind the rows.

Rows of a Chrome file do not say which span is inside which, which tensor is which, or what was in
memory before. Other tools ignore this key; opscope reads it instead of the rows, if the rows are
those that were written with it. Text of source lines stays out: the rows show none either.
"""

from __future__ import annotations

import binascii
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opscope import _native
from opscope.errors import TraceFormatError
from opscope.trace.ledger_rows import NOT_EXPORTED
from opscope.trace.packed import packed, unpacked
from opscope.trace.trace import Trace
from opscope.trace.unknown_codes import ledger_with
from opscope.trace.unpacked_file import UnpackedFile

KEY = "opscope"
_FORMAT = 2
_LEFT_OUT = ("source_lines",)
_BEGIN = f'"{KEY}": {{"rows": '.encode()
_FILE_BEGIN = b'{\n"schemaVersion": 1,\n'
"""How every file of ours begins, and nobody else's: others are not searched for columns."""

_PIECE_BYTES = 1 << 20
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


def trace_in(path: Path) -> Trace | None:
    """The trace that the columns in a file are of; None where there are none that fit its rows.

    Raises:
        TraceFormatError: the file is missing or damaged.
        InsufficientMemoryError: it does not fit in memory.
    """
    found = _rows_and_columns(path)
    if found is None:
        return None
    rows, columns = found
    try:
        value = json.loads(b"{" + columns)[KEY]
        size, checksum, rest = value["rows"]
        is_whole = _checksum(memoryview(columns)[columns.index(b"], ") + 3 :]) == rest
        if [size, checksum] != rows or not is_whole:
            return None
        if value["format"] != _FORMAT:
            return None
        trace = unpacked(value, str(path))
        missing = {NOT_EXPORTED + name: rows for name, rows in value["left_out"].items()}
    except _DAMAGED:
        return None
    if not missing:
        return trace
    ledger = ledger_with(trace.table("ledger"), missing, "import")
    return trace.with_tables({"ledger": ledger})


def _pieces(path: Path) -> Iterator[bytes]:
    """All of a file, without progress: where it has no columns, its rows are read after this."""
    with UnpackedFile(path) as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece


def _rows_and_columns(path: Path) -> tuple[list[int], bytes] | None:
    """Size and checksum of what stands before the last columns in a file, and the rest of it."""
    rows, before = RowsWritten(), b""
    found: tuple[list[int], bytearray] | None = None

    def add(block: bytes) -> None:
        rows.add(block)
        if found is not None:
            found[1].extend(block)

    for number, piece in enumerate(_pieces(path)):
        if number == 0 and not piece.startswith(_FILE_BEGIN):
            return None
        block = before + piece
        while (begin := block.find(_BEGIN)) >= 0:
            add(block[:begin])
            found = ([rows.size, rows.checksum], bytearray())
            add(_BEGIN)
            block = block[begin + len(_BEGIN) :]
        certain = max(len(block) - len(_BEGIN) + 1, 0)
        add(block[:certain])
        before = block[certain:]
    add(before)
    return None if found is None else (found[0], bytes(found[1]))
