"""Reading a Chrome JSON file in pieces with the native reader.

Memory has at most a piece and the longest value of the text: data become columns at once.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opscope import _native
from opscope.base.input_file import shown_path, status_of
from opscope.base.memory_limit import require_memory
from opscope.errors import TraceFormatError
from opscope.storage.chrome.vocabulary import meaning_of, parsed, vocabulary
from opscope.storage.unpacked_file import pieces_of

PIECE_BYTES = 1 << 20
_MEMORY_CHECK_BYTES = 1 << 26
"""Bytes between two checks of available memory: the unpacked size of a gzip file is unknown."""


def read_json(path: Path) -> tuple[_native.ChromeReader, dict[str, Any]]:
    """Read a Chrome JSON, plain or packed; of a truncated file, the complete part.

    One defect is repaired: names with quotes that Kineto did not escape (``"name": "f.py(0):
    "x""``).

    Raises:
        TraceFormatError: the file is missing, damaged, truncated or not a Chrome trace.
        InsufficientMemoryError: it does not fit in memory.
    """
    reader = _read(path, repairs_names=False)
    if reader.problem is not None:
        reader = _read(path, repairs_names=True)
    if reader.problem is not None:
        raise TraceFormatError(_problem_text(path, reader.problem))
    if not reader.has_events:
        raise TraceFormatError(
            f"{path} is JSON but not a Chrome trace: it has no traceEvents. opscope.load() takes "
            "trace folders written by opscope and Chrome JSON written by export_chrome_trace()."
        )
    metadata = parsed(reader.others or "{}")
    return reader, metadata if isinstance(metadata, dict) else {}


def _read(path: Path, repairs_names: bool) -> _native.ChromeReader:
    reader = _native.ChromeReader(vocabulary(), meaning_of, repairs_names)
    status = status_of(path)
    require_memory(0 if status is None else status.st_size, f"reading {shown_path(path)}")
    read_bytes = measured_bytes = 0
    for piece in _without_padding(_utf8_pieces(path)):
        if not reader.add(piece):
            break
        read_bytes += len(piece)
        if read_bytes - measured_bytes >= _MEMORY_CHECK_BYTES:
            measured_bytes = read_bytes
            require_memory(read_bytes // 2, f"reading {shown_path(path)}")
    reader.finish()
    return reader


def _utf8_pieces(path: Path) -> Iterator[bytes]:
    """The text of a file as UTF-8, with replacements for invalid bytes."""
    decoder: codecs.IncrementalDecoder | None = None
    is_plain = False
    for piece in pieces_of(path, PIECE_BYTES):
        if decoder is None:
            encoding = json.detect_encoding(piece)
            decoder = codecs.getincrementaldecoder(encoding)("replace")
            is_plain = encoding == "utf-8"
        if is_plain and piece.isascii() and not decoder.getstate()[0]:
            yield piece
        else:
            yield decoder.decode(piece).encode()
    if decoder is not None:
        yield decoder.decode(b"", final=True).encode()


def _without_padding(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Drop zeros at the end of a file, which a crash of the machine may leave."""
    zeros = 0
    for piece in pieces:
        text = piece.rstrip(b"\0")
        if text:
            yield bytes(zeros) + text if zeros else text
            zeros = 0
        zeros += len(piece) - len(text)


def _problem_text(path: Path, problem: _native.JsonProblem) -> str:
    place = f"line {problem['line']}, column {problem['column']}"
    if problem["is_at_end"] and not any(map(bytes.strip, _without_padding(_utf8_pieces(path)))):
        return f"{path} is empty. Its writer was probably interrupted: export the trace again."
    if problem["is_at_end"]:
        return (
            f"{path} stops in the middle of the JSON, at {place}: its writer was interrupted or "
            "the disk was full. Export the trace again."
        )
    if problem["what"] == "Extra data":
        return (
            f"{path} continues after the end of its JSON, at {place}. If it contains several "
            "traces, split it into one file for each: their clocks may differ."
        )
    if path.suffix == ".py":
        return f"{path} is a program. `opscope run {path}` records it."
    return (
        f"{path} is not JSON: {problem['what']} at {place}. opscope.load() takes trace folders "
        "written by opscope and Chrome JSON (.json, .json.gz)."
    )
