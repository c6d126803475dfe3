"""Locations in the program: file, line and function, and their text."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from opscope.columns.trace_data import TraceData

LineTexts: TypeAlias = Mapping[tuple[str, int], str]
"""What lines say, by file and number."""

_MODULE = "<module>"
"""What Python calls the code of a module that is in no function."""

Kind = TypeVar("Kind", bound="Location")


@dataclass(frozen=True, order=True)
class Location:
    """A line of a source, or a function.

    Attributes:
        file: as Python names it; empty where none is known.
        line: from 1; -1 where only the function is known.
        function: the line is in; empty if unknown.
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
        cls: type[Kind], trace: TraceData, frame: int, line: int | None = None, **more: Any
    ) -> Kind:
        """A line of the function of a row of ``frames``, or where that begins; of -1 none."""
        if frame < 0:
            return cls(**more)
        frames, names = trace.table("frames"), trace.names
        line = int(frames["line"][frame]) if line is None else line
        return cls(names[frames["file"][frame]], line, names[frames["function"][frame]], **more)

    @property
    def has_exact_line(self) -> bool:
        """Whether the line is more than where its function begins: of what a module does itself
        only the module may be known, which begins at line 1."""
        return self.function != _MODULE or self.line > 1

    def said(self, texts: LineTexts) -> str:
        """What the line says; empty if it is not known."""
        return texts.get((self.file, self.line), "") if self.has_exact_line else ""


def line_texts(trace: TraceData) -> LineTexts:
    """What the lines say that the recording kept."""
    table = trace.table("source_lines")
    columns = (table[name].tolist() for name in ("file", "line", "text"))
    return {(trace.names[file], line): text for file, line, text in zip(*columns, strict=True)}


def thread_name(trace: TraceData, number: int) -> str:
    """The name that the thread with a number in the system gave itself; empty for none."""
    threads = trace.table("threads")
    rows = np.flatnonzero(threads["system_thread_id"] == number)
    name = int(threads["name"][rows[0]]) if len(rows) else -1
    return trace.names[name] if name >= 0 else ""


def thread_text(trace: TraceData, number: int) -> str:
    """``thread 1234 (loader)``: a thread's number in the system, and its name if it has one."""
    name = thread_name(trace, number)
    return f"thread {number} ({name})" if name else f"thread {number}"
