"""A file format: name, file name suffixes, help text and writer."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError


@dataclass(frozen=True)
class Format:
    """An export format; each is declared beside its writer.

    Attributes:
        name: the value of --format.
        suffixes: file name suffixes of this format; the longest match counts.
        write: called with the trace and the path of the file, which it replaces.
    """

    name: str
    suffixes: tuple[str, ...]
    help: str
    write: Callable[[TraceData, str], object]

    def suffix_of(self, path: str | os.PathLike[str]) -> str:
        """The suffix of ``path`` that means this format; empty if there is none."""
        matches = [suffix for suffix in self.suffixes if os.fspath(path).endswith(suffix)]
        return max(matches, key=len, default="")


def find_format(name: str, formats: Sequence[Format]) -> Format:
    """The format named ``name``; UsageError without one."""
    for format in formats:
        if format.name == name:
            return format
    names = ", ".join(format.name for format in formats)
    raise UsageError(f"There is no export format {name!r}. Choose one of: {names}.")


def format_of_file(path: str | os.PathLike[str], formats: Sequence[Format]) -> Format | None:
    """The format with the longest suffix of ``path``; None without one."""
    best = max(formats, key=lambda format: len(format.suffix_of(path)))
    return best if best.suffix_of(path) else None
