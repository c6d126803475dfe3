"""The text of the program's own lines that made calls, so that views can show what they name.

Read when a recording is decoded, while the files are still what ran; installed files are left out.
"""

from __future__ import annotations

import linecache
import os
import stat
import sys
from collections import defaultdict
from types import ModuleType
from typing import Any

import numpy as np

from opscope.base.program_files import is_library
from opscope.recording.decoded import Decoded

_MOST_LINES = 10_000
_LONGEST = 200
_LARGEST_BYTES = 16 << 20
"""Of a file of source."""


def source_lines(decoded: Decoded) -> dict[str, Any]:
    """Columns of the table ``source_lines``; those of a line that cannot be read are left out."""
    file: list[int] = []
    line: list[int] = []
    text: list[str] = []
    for row, numbers in _lines_by_file(decoded).items():
        lines = _lines_of(decoded.names[row])
        for number in numbers:
            if 0 < number <= len(lines) and len(file) < _MOST_LINES:
                file.append(row)
                line.append(number)
                text.append(lines[number - 1].strip()[:_LONGEST])
    return {"file": file, "line": line, "text": text} if file else {}


def _lines_of(file: str) -> list[str]:
    """Of a file, or of a module in a zip file, whose loader has its text."""
    if _may_read(file) and (lines := linecache.getlines(file)):
        return lines
    for module in list(sys.modules.values()):
        # Not by getattr(): modules that load their parts when asked would do so.
        inside = vars(module) if isinstance(module, ModuleType) else {}
        if inside.get("__file__") == file:
            return linecache.getlines(file, inside)
    return []


def _may_read(file: str) -> bool:
    """What was recorded elsewhere may name anything: a pipe that nothing is written to, a device
    that has no end."""
    if file in linecache.cache:  # the text of a cell of a notebook is nowhere else
        return True
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return True  # linecache looks for it in the places that modules come from
    return stat.S_ISREG(status.st_mode) and status.st_size <= _LARGEST_BYTES


def _lines_by_file(decoded: Decoded) -> dict[int, list[int]]:
    """Where functions of the program begin, and where they call something; by name of the file."""
    frames = decoded.tables["frames"]
    file, first = frames["file"], frames["line"]
    names = decoded.names
    used = np.unique(file).tolist()
    own = [row for row in used if row >= 0 and not is_library(names[row])]
    is_own = np.isin(file, own)
    places = {*_pairs(file[is_own], first[is_own])}
    for calls in (decoded.tables["python_calls"], decoded.tables["operator_calls"]):
        made = calls["caller"] >= 0
        caller, number = calls["caller"][made], calls["caller_line"][made]
        inside = is_own[caller]
        places |= {*_pairs(file[caller[inside]], number[inside])}
    found: defaultdict[int, list[int]] = defaultdict(list)
    for row, at in sorted(places):
        found[row].append(at)
    return found


def _pairs(file: Any, line: Any) -> list[tuple[int, int]]:
    both = np.unique(file.astype(np.int64) << 32 | line.astype(np.int64) & 0xFFFFFFFF)
    return list(zip((both >> 32).tolist(), (both & 0xFFFFFFFF).tolist(), strict=True))
