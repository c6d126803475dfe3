"""How far a long analysis in a notebook's cell has come, as one line below it."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from typing import Any

from opscope.base.progress import listening

QUIET_S, EVERY_S = 1.0, 0.5
"""Before the line appears, and between changes of it."""


class CellProgress:
    """Listens while a cell runs; ``register`` has it called for every cell of a shell."""

    def __init__(self) -> None:
        self._listens = ExitStack()
        self._line: Any = None
        self._next_s = 0.0

    def register(self, shell: Any) -> None:
        """Listen in every cell from the next on."""
        shell.events.register("pre_run_cell", self.begin)
        shell.events.register("post_run_cell", self.end)

    def begin(self, _: Any) -> None:
        """A cell begins."""
        self._next_s = time.monotonic() + QUIET_S
        self._listens.enter_context(listening(self._show))

    def end(self, _: Any) -> None:
        """Remove the line: the analysis has ended."""
        with suppress(ValueError):  # it ended in another context, which is gone with its listener
            self._listens.close()
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
