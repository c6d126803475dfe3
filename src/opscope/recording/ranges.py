"""Spans shown by another tool as well, as ranges: by Nsight Systems (NVTX) or VTune (ITT).

Nothing of it is recorded. Every span of every thread is handed on for as long as anybody wants it;
a process hands them on to one tool.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from opscope import _native
from opscope.notice import notice
from opscope.recording.decoded import Decoded
from opscope.recording.listeners import Listener

_section = _native.Section()
_wanted: list[Ranges] = []
_shown: tuple[str, bool] | None = None  # as what, and with shapes of arguments?


class Ranges(Listener):
    """That somebody wants spans to be shown; of one of the two kinds below.

    Attributes:
        kind: ``nvtx`` or ``itt``.
        with_shapes: of arguments of operators.
        why_not: why no tool shows them; empty if one does.
    """

    kind: str

    def __init__(self, with_shapes: bool) -> None:
        self.with_shapes = with_shapes
        self.why_not = ""

    def show(self) -> str:
        """Begin; returns why no tool shows them, empty if one does."""
        return _section.run(self._show)

    def end(self) -> None:
        """Nobody wants it any more for this one's sake."""
        _section.run(self._end)

    def begin(self) -> None:
        """For a window: says on standard error why no tool shows them."""
        if why_not := self.show():
            notice(f"no {self.kind.upper()} ranges are shown: {why_not}.")

    def added_to(self, decoded: Decoded) -> Decoded:
        """As ``ranges``."""
        return replace(decoded, ranges={**decoded.ranges, self.kind: self.why_not})

    def known(self) -> Any:
        """Why no tool shows them."""
        return self.why_not

    def learn(self, known: Any) -> None:
        """Likewise."""
        self.why_not = str(known)

    def _show(self) -> str:
        if self not in _wanted:
            _wanted.append(self)
        others = {other.kind for other in _wanted} - {self.kind}
        self.why_not = f"they go to {others.pop().upper()} already" if others else _configure()
        if self.why_not:
            self._end()
        return self.why_not

    def _end(self) -> None:
        if self in _wanted:
            _wanted.remove(self)
        _configure()


class NvtxRanges(Ranges):
    """By Nsight Systems, or what else takes NVTX."""

    kind = "nvtx"


class IttTasks(Ranges):
    """By VTune."""

    kind = "itt"


def _configure() -> str:
    """Have shown what is wanted; why that cannot be done, or empty."""
    global _shown
    wanted = (_wanted[0].kind, any(one.with_shapes for one in _wanted)) if _wanted else None
    if wanted == _shown:
        return ""
    if wanted is None:
        _native.stop_ranges()
    elif why_not := _native.emit_ranges(*wanted):
        return why_not
    _shown = wanted
    return ""
