"""Threads of opscope's own: daemons whose stack has functions of opscope's alone.

Recordings leave those out. A thread of the threading module has that module's functions around
them, which recordings with stacks would show.
"""

from __future__ import annotations

import _thread
import os
import threading
from collections.abc import Callable


class OwnThread:
    """Runs a function once. Never keeps the program alive; in a forked child it is not there."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._ended = threading.Event()
        self._ident: int | None = None
        self._process = os.getpid()

    def start(self) -> None:
        """Run it.

        Raises:
            RuntimeError: the system has no thread left.
        """
        self._ident = _thread.start_new_thread(self._run, ())

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for its end, for so long at most, which the thread itself does not."""
        if self.is_alive():
            self._ended.wait(timeout_s)

    def is_alive(self) -> bool:
        """Whether it runs, and is not the one that asks."""
        is_here = self._process == os.getpid() and self._ident is not None
        return is_here and not self._ended.is_set() and self._ident != _thread.get_ident()

    def is_current(self) -> bool:
        """Whether it is the one that asks."""
        return self._ident == _thread.get_ident() and self._process == os.getpid()

    def _run(self) -> None:
        try:
            self._function()
        finally:
            self._ended.set()
