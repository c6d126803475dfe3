"""Threads of opscope's own: daemons whose stack has functions of opscope's alone.

Recordings leave those out. A thread of the threading module has that module's functions around
them, which recordings with stacks would show.

Python ends daemon threads wherever they are. So at the program's end, after its own functions for
that, these threads are asked to end before Python does, and waited for, though not for long.
"""

from __future__ import annotations

import _thread
import atexit
import os
import threading
import time
from collections.abc import Callable

_AT_EXIT_S = 1.0
_YIELD_S = 0.0002
"""As long as it takes to wake a thread: the GIL goes to who takes it first, and that are we."""
_running: set[OwnThread] = set()


class OwnThread:
    """Runs a function once. Never keeps the program alive; in a forked child it is not there."""

    def __init__(self, function: Callable[[], object], ask_to_end: Callable[[], object]) -> None:
        """Prepare one.

        Args:
            function: what it runs.
            ask_to_end: has ``function`` return soon, and does not wait for it.
        """
        self._function, self._ask_to_end = function, ask_to_end
        self._ended = threading.Event()
        self._ident: int | None = None
        self._process = os.getpid()

    def start(self) -> None:
        """Run it.

        Raises:
            RuntimeError: the system has no thread left.
        """
        _running.add(self)
        try:
            self._ident = _thread.start_new_thread(self._run, ())
        except RuntimeError:
            _running.discard(self)
            raise

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for its end, for so long at most, which the thread itself does not."""
        if self.is_alive():
            self._ended.wait(timeout_s)

    def ask_to_end(self) -> None:
        """Have it end soon; returns at once. Without effect on one that has ended."""
        if self.is_alive():
            self._ask_to_end()

    def is_alive(self) -> bool:
        """Whether it runs, and is not the one that asks."""
        is_here = self._process == os.getpid() and self._ident is not None
        return is_here and not self._ended.is_set() and self._ident != _thread.get_ident()

    def _run(self) -> None:
        try:
            self._function()
        finally:
            _running.discard(self)
            self._ended.set()


def let_others_run() -> None:
    """Leave the GIL to whoever waits for it, which otherwise gets it after 5 ms alone."""
    time.sleep(_YIELD_S)


def _end_all() -> None:
    """All are asked before any is waited for."""
    running = tuple(_running)
    for one in running:
        one.ask_to_end()
    until_s = time.monotonic() + _AT_EXIT_S
    for one in running:
        one.join(max(until_s - time.monotonic(), 0))


atexit.register(_end_all)
