"""Progress of a long analysis in a notebook, as one line below the cell."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from typing import Any

from opscope.base.progress import listening

QUIET_S, EVERY_S = 1.0, 0.5
"""Time before the line appears, and between its updates."""


class CellProgress:
    """Shows progress of analyses while a cell runs."""

    def __init__(self) -> None:
        self._listeners = ExitStack()
        self._line: Any = None
        self._next_s = 0.0

    def register(self, shell: Any) -> None:
        """Show progress in every later cell of ``shell``."""
        shell.events.register("pre_run_cell", self.begin)
        shell.events.register("post_run_cell", self.end)

    def begin(self, _: Any) -> None:
        """Listen for progress; called when a cell begins."""
        self._next_s = time.monotonic() + QUIET_S
        self._listeners.enter_context(listening(self._show))

    def end(self, _: Any) -> None:
        """Remove the line; called when a cell ends."""
        with suppress(ValueError):  # the cell ended in another context than it began in
            self._listeners.close()
        if self._line is not None:
            self._line.update({"text/plain": ""}, raw=True)
            self._line = None

    def _show(self, share: float) -> None:
        if time.monotonic() < self._next_s:
            return
        from IPython.display import display

        self._next_s = time.monotonic() + EVERY_S
        line = {"text/plain": f"opscope: {share:.0%} done"}
        if self._line is None:
            self._line = display(line, raw=True, display_id=True)
        else:
            self._line.update(line, raw=True)
