"""A file format: its name, the file names that mean it, a line of help and its writer."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError


@dataclass(frozen=True)
class Format:
    """A format that a trace can be written in. Each is declared beside its writer.

    Attributes:
        name: the value of --format.
        suffixes: ends of file names that mean it; that of a name with several is the longest.
        help: what it is for.
        write: called with the trace and the path of the file, which it replaces.
    """

    name: str
    suffixes: tuple[str, ...]
    help: str
    write: Callable[[TraceData, str], object]

    def suffix_of(self, path: str | os.PathLike[str]) -> str:
        """The end of this file name that means this format; empty where none does."""
        fitting = [suffix for suffix in self.suffixes if os.fspath(path).endswith(suffix)]
        return max(fitting, key=len, default="")


def find_format(name: str, formats: Sequence[Format]) -> Format:
    """The one of ``formats`` that is called ``name``."""
    for format in formats:
        if format.name == name:
            return format
    known = ", ".join(format.name for format in formats)
    raise UsageError(f"There is no export format {name!r}. Choose one of: {known}.")


def format_of_file(path: str | os.PathLike[str], formats: Sequence[Format]) -> Format | None:
    """The one of ``formats`` that a file name means; None where it does not say."""
    best = max(formats, key=lambda format: len(format.suffix_of(path)))
    return best if best.suffix_of(path) else None
