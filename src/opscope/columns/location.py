"""Locations in the program: file, line and function, and their text."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from opscope.columns.trace_data import TraceData

LineTexts: TypeAlias = Mapping[tuple[str, int], str]  # source text by file and line number
_MODULE = "<module>"  # Python's function name for a module's code outside functions
Kind = TypeVar("Kind", bound="Location")


@dataclass(frozen=True, order=True)
class Location:
    """A line of source code, or a function.

    Attributes:
        file: name as in Python; empty if unknown.
        line: from 1; -1 if only the function is known.
        function: function that contains the line; empty if unknown.
    """

    file: str = ""
    line: int = -1
    function: str = ""

    def __str__(self) -> str:
        if not self.file:
            return ""
        return os.path.normpath(self.file) + (f":{self.line}" if self.line >= 0 else "")

    @classmethod
    def at(
        cls: type[Kind], trace: TraceData, frame: int, line: int | None = None, **extra: Any
    ) -> Kind:
        """Location in a row of ``frames``, by default its first line; empty for row -1."""
        if frame < 0:
            return cls(**extra)
        frames, names = trace.table("frames"), trace.names
        line = int(frames["line"][frame]) if line is None else line
        return cls(names[frames["file"][frame]], line, names[frames["function"][frame]], **extra)

    @property
    def has_exact_line(self) -> bool:
        """Whether the line is exact: in module code only line 1 may be known."""
        return self.function != _MODULE or self.line > 1

    def source_text(self, texts: LineTexts) -> str:
        """Source text of the line; empty if unknown."""
        return texts.get((self.file, self.line), "") if self.has_exact_line else ""


def line_texts(trace: TraceData) -> LineTexts:
    """Source lines that the recording kept."""
    table = trace.table("source_lines")
    columns = (table[name].tolist() for name in ("file", "line", "text"))
    return {(trace.names[file], line): text for file, line, text in zip(*columns, strict=True)}


def thread_name(trace: TraceData, number: int) -> str:
    """Name of the thread with this kernel thread id; empty if it has none."""
    threads = trace.table("threads")
    rows = np.flatnonzero(threads["system_thread_id"] == number)
    name = int(threads["name"][rows[0]]) if len(rows) else -1
    return trace.names[name] if name >= 0 else ""


def thread_text(trace: TraceData, number: int) -> str:
    """``thread 1234 (loader)``: kernel thread id, and the name if there is one."""
    name = thread_name(trace, number)
    return f"thread {number} ({name})" if name else f"thread {number}"
