"""An execution trace file, node by node: never more of it in memory than a few megabytes."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opscope.errors import TraceFormatError
from opscope.progress import tell
from opscope.trace.chrome.numbers import NumberText, plain
from opscope.trace.unpacked_file import UnpackedFile

CHUNK_BYTES = 1 << 20
MAX_VALUE_CHARACTERS = 256 << 20
"""A node longer than this is taken for a damaged file."""

_SPACE = re.compile(r"[ \t\r\n]*")


def read_nodes(path: Path, on_node: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Hand every node of an execution trace (plain or gzip) over; return what else the file says.

    Raises:
        TraceFormatError: the file is missing, damaged, truncated or no execution trace.
    """
    header: dict[str, Any] = {}
    has_nodes = False
    with _reading(path) as stream:
        for key in stream.members():
            if key == "nodes" and not has_nodes:
                has_nodes = True
                for node in stream.elements():
                    if isinstance(node, dict):
                        on_node(node)
            else:
                header[key] = plain(stream.value())
    if not has_nodes:
        raise TraceFormatError(
            f"{path} is JSON but not an execution trace: it has no nodes. Check the path."
        )
    return header


class _Stream:
    """A JSON text of any length."""

    def __init__(self, file: UnpackedFile) -> None:
        self._file = file
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._parse = json.JSONDecoder(parse_float=NumberText, strict=False).raw_decode
        self._text = ""
        self._at = 0
        self._ended = False
        self.elements_read = 0

    def members(self) -> Iterator[str]:
        """The keys of the object that begins here; the caller takes the value after each."""
        self._take("{")
        if self._next() == "}":
            return
        while True:
            key = self.value()
            if not isinstance(key, str):
                raise ValueError("a key that is no text")
            self._take(":")
            yield key
            if self._next() != ",":
                break
            self._take(",")
        self._take("}")

    def elements(self) -> Iterator[Any]:
        """The elements of the array that begins here."""
        self._take("[")
        if self._next() == "]":
            self._take("]")
            return
        while True:
            yield self.value()
            self.elements_read += 1
            if self._next() != ",":
                break
            self._take(",")
        self._take("]")

    def value(self) -> Any:
        """The value that begins here."""
        self._next()
        while True:
            try:
                value, end = self._parse(self._text, self._at)
            except json.JSONDecodeError:
                if len(self._text) - self._at > MAX_VALUE_CHARACTERS or not self._read():
                    raise
                continue
            # A number at the end of the block may continue in the next one.
            if end < len(self._text) or not self._read():
                self._at = end
                return value

    def _next(self) -> str:
        """The next character that is no white space, ``""`` at the end."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = found.end() if found is not None else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read():
                return ""

    def _take(self, expected: str) -> None:
        found = self._next()
        if found != expected:
            raise json.JSONDecodeError(f"Expecting {expected!r}", self._text, self._at)
        self._at += 1

    def _read(self) -> bool:
        """Read on; False at the end of the file."""
        while not self._ended:
            chunk = self._file.read(CHUNK_BYTES)
            tell(self._file.at_bytes, self._file.size_bytes)
            self._ended = not chunk
            text = self._decode(chunk, final=self._ended)
            if text:
                self._text = self._text[self._at :] + text
                self._at = 0
                return True
        return False

    def is_cut(self, error: ValueError) -> bool:
        """Whether the file ends where ``error`` is, so that it may have been longer once."""
        if not isinstance(error, json.JSONDecodeError) or self._read():
            return False
        last_word = len("fals")
        return "Unterminated" in error.msg or error.pos >= len(self._text.rstrip()) - last_word


@contextmanager
def _reading(path: Path) -> Iterator[_Stream]:
    try:
        with UnpackedFile(path) as file:
            stream = _Stream(file)
            try:
                yield stream
            except TraceFormatError:
                raise
            except ValueError as error:
                raise TraceFormatError(_what_is_wrong(path, stream, error)) from error
    except RecursionError as error:
        raise TraceFormatError(
            f"{path} nests JSON values too deeply to be an execution trace. Check the path."
        ) from error


def _what_is_wrong(path: Path, stream: _Stream, error: ValueError) -> str:
    read = f"after {stream.elements_read:,} whole nodes"
    if stream.is_cut(error):
        return (
            f"{path} stops in the middle of the JSON, {read}: the observer was not unregistered, "
            "or its program was killed. Call unregister_callback() when done, and record it again."
        )
    what = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
    return f"{path} is not JSON: {what}, {read}. Check that it is an execution trace."
