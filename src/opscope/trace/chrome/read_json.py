"""A Chrome JSON file, event by event.

``json`` reads the whole text, but every event is handed over the moment it is parsed and dropped
right after, so memory holds the text and our columns, never a Python object per event.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opscope.errors import TraceFormatError
from opscope.progress import tell
from opscope.trace.chrome.numbers import NumberText, plain
from opscope.trace.input_file import GZIP_ERRORS, not_whole, read_packed, unreadable

OnEvent = Callable[[dict[str, Any]], None]


def read_json(
    raw: bytes, path: Path, new_reader: Callable[[], OnEvent]
) -> tuple[dict[str, Any], int]:
    """Hand every event of a Chrome JSON, of which ``raw`` are the bytes, to a reader.

    ``new_reader`` is called for every attempt at the text. Two faults are mended: an array without
    its closing bracket, which the format allows, and names with quotes in them that Kineto did not
    escape (``"name": "f.py(0): "x""``).

    Returns:
        The file's other keys, and how many names were mended.

    Raises:
        TraceFormatError: the file is damaged, truncated or not a Chrome trace.
    """
    text = raw.decode(json.detect_encoding(raw), "replace")
    try:
        return _parse(text, new_reader(), path), 0
    except json.JSONDecodeError as error:
        mended, names = _mend(text)
        if mended == text:
            raise TraceFormatError(_what_is_wrong(path, text, error)) from error
    try:
        return _parse(mended, new_reader(), path), names
    except json.JSONDecodeError as error:
        raise TraceFormatError(_what_is_wrong(path, mended, error)) from error


_EVENT = '"ph"'
"""Once in every event, and hardly anywhere else: enough to tell how far parsing is."""

_EVENTS_BETWEEN_WORDS = 8192

_NAME_LINE = re.compile(r'^(\s*"name"\s*:\s*")(.*)("\s*,?\s*)$', re.MULTILINE)
_BARE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|["\\]')
"""An escape, to be left alone, or a quote or backslash that should have been one."""


def _mend(text: str) -> tuple[str, int]:
    """The text with an open array closed and bare quotes in lines of names escaped."""
    names = 0

    def escape(line: re.Match[str]) -> str:
        nonlocal names
        name = _BARE.sub(lambda m: m[0] if len(m[0]) > 1 else "\\" + m[0], line[2])
        names += name != line[2]
        return line[1] + name + line[3]

    mended = _NAME_LINE.sub(escape, text)
    end = mended.rstrip()
    if end.startswith("[") and not end.endswith("]"):
        mended = end.rstrip(",") + "]"
    return mended, names


def read_bytes(path: Path) -> bytes:
    """All of a plain or gzip file.

    Raises:
        TraceFormatError: it is missing or damaged.
        InsufficientMemoryError: it does not fit in memory.
    """
    try:
        return read_packed(path)
    except FileNotFoundError as error:
        raise TraceFormatError(f"There is no file {path}. Check the path.") from error
    except GZIP_ERRORS as error:
        raise not_whole(path, error, "Export it again.") from error
    except OSError as error:
        raise unreadable(path, error) from error


def _parse(text: str, on_event: OnEvent, path: Path) -> dict[str, Any]:
    found = False
    seen, expected = 0, text.count(_EVENT)

    def hook(value: dict[str, Any]) -> dict[str, Any] | None:
        nonlocal found, seen
        # Every event has a phase, and all but a few metadata events a time; an ``args`` that
        # happens to hold "ph" has neither a process nor a time.
        if "ph" in value and ("ts" in value or "pid" in value):
            found = True
            seen += 1
            if not seen % _EVENTS_BETWEEN_WORDS:
                tell(seen, expected)
            on_event(value)
            return None
        return value

    with _no_garbage_collection():
        try:
            top = json.loads(text, object_hook=hook, parse_float=NumberText, strict=False)
            others = _without_events(top)
        except RecursionError as error:
            raise TraceFormatError(
                f"{path} nests JSON values too deeply to be a Chrome trace. Check the path."
            ) from error
        except json.JSONDecodeError:
            raise
        except ValueError as error:  # an integer of thousands of digits
            raise TraceFormatError(
                f"{path} holds a number no trace can hold ({error}). Check the path."
            ) from error
    if not found and not (isinstance(top, dict) and isinstance(top.get("traceEvents"), list)):
        raise TraceFormatError(
            f"{path} is JSON but not a Chrome trace: it has no traceEvents. opscope.load() takes "
            "trace folders written by opscope and Chrome JSON written by export_chrome_trace()."
        )
    return others


def _without_events(top: Any) -> dict[str, Any]:
    if not isinstance(top, dict):
        return {}
    return {key: plain(value) for key, value in top.items() if key != "traceEvents"}


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Parsing makes millions of objects and no cycles; collecting among them doubles the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _what_is_wrong(path: Path, text: str, error: json.JSONDecodeError) -> str:
    if not text.strip():
        return f"{path} is empty. Its writer was probably interrupted: export the trace again."
    if error.pos >= len(text.rstrip()) - 1 or "Unterminated" in error.msg:
        return (
            f"{path} stops in the middle of the JSON, at character {error.pos} of {len(text)}: "
            "its writer was interrupted or the disk was full. Export the trace again."
        )
    return (
        f"{path} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}. "
        "opscope.load() takes trace folders written by opscope and Chrome JSON (.json, .json.gz)."
    )
