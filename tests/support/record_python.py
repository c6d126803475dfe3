"""Recording plain Python with the native core alone: no torch, any interpreter."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from opscope import _native
from opscope.columns.codes import Want

WITH_GIL = {**os.environ, "PYTHON_GIL": "1"}
"""For a process whose stderr is compared: a build without the GIL says that it turns it on."""


WITHOUT_GIL = not getattr(sys, "_is_gil_enabled", lambda: True)()
"""Do threads run Python at the same time?"""


@dataclass
class Call:
    """One recorded call: its short name, thread row, caller's line and what ran in it."""

    name: str
    thread: int
    unfinished: bool
    line: int
    duration_ns: int
    children: list[Call] = field(default_factory=list)

    def find(self, name: str) -> list[Call]:
        """All calls of this name in it, itself included, in start order."""
        found = [self] if self.name == name else []
        for child in self.children:
            found += child.find(name)
        return found

    def find_all(self) -> list[Call]:
        """Itself and everything in it, in start order."""
        return [self] + [found for child in self.children for found in child.find_all()]

    def shape(self) -> Any:
        """The names as a nested structure: a name, or (name, children...)."""
        if not self.children:
            return self.name
        return (self.name, *(child.shape() for child in self.children))


class PythonWindow:
    """A window of the native recorder over Python calls."""

    def __init__(self, *wants: str, all_threads: bool = True) -> None:
        wanted = wants or ("PYTHON", "NEW_THREADS")
        self.id: int = _native.open_window(sum(Want[name] for name in wanted), all_threads)
        self.decoded: dict[str, Any] = {}

    def close(self) -> None:
        _native.close_window(self.id)

    def end(self) -> list[Call]:
        """Close it, then :meth:`read`."""
        _native.close_window(self.id)
        return self.read()

    def read(self) -> list[Call]:
        """Decode and give back; returns the outermost calls."""
        self.decoded = _native.decode(self.id, [])
        _native.discard_window(self.id)
        return calls_of(self.decoded)


def calls_of(decoded: dict[str, Any]) -> list[Call]:
    """The recorded spans as trees."""
    events, python = decoded["tables"]["events"], decoded["tables"]["python_calls"]
    offsets, text = decoded["name_offsets"], decoded["name_text"]
    lines = dict(zip(python["event"].tolist(), python["caller_line"].tolist(), strict=True))
    calls: list[Call] = []
    roots: list[Call] = []
    for row, parent in enumerate(events["parent"].tolist()):
        name_row = int(events["name"][row])
        name = text[offsets[name_row] : offsets[name_row + 1]].decode()
        call = Call(
            name=name.rpartition(": ")[2] if "): " in name else name,
            thread=int(events["thread"][row]),
            unfinished=bool(events["unfinished"][row]),
            line=lines.get(row, -1),
            duration_ns=int(events["duration_ns"][row]),
        )
        calls.append(call)
        (roots if parent < 0 else calls[parent].children).append(call)
    return roots


def record(function: Callable[[], Any], *wants: str) -> Call:
    """Record one call of ``function``; returns the call itself.

    Garbage that others left is not collected meanwhile: its finalizers would be calls in it.
    """
    collects = gc.isenabled()
    gc.disable()
    window = PythonWindow(*wants)
    try:
        function()
    finally:
        window.close()
        if collects:
            gc.enable()
    name = function.__name__
    found = [call for root in window.read() for call in root.find(name)]
    assert len(found) == 1, [call.shape() for call in found]
    return found[0]


def leaf(number: int = 0) -> int:
    """A function that calls nothing."""
    return number + 1


def shapes(call: Call) -> list[Any]:
    """Children by name, with the noise of the interpreter versions left out."""
    return [child.shape() for child in call.children]
