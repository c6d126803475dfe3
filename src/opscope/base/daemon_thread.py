"""opscope's own daemon threads.

Their stacks have only opscope's functions, so recordings omit them. A thread of the threading
module would also have functions of that module.

Python stops daemon threads at any instruction. So at exit, after the program's own exit functions,
opscope requests their end and waits at most one second.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import threading
import time
from collections.abc import Callable

_AT_EXIT_S = 1.0
_YIELD_S = 0.0002  # time to wake a thread; with less, this thread would get the GIL again first
_running: set[OwnThread] = set()


class OwnThread:
    """A thread that runs a function once. It does not keep the program alive or survive a fork."""

    def __init__(self, function: Callable[[], object], request_end: Callable[[], object]) -> None:
        """Set the function, and the callback that requests its end."""
        self._function, self._request_end = function, request_end
        self._ended = threading.Event()
        self._ident: int | None = None
        self._process = os.getpid()

    def start(self) -> None:
        """Start the thread."""
        _running.add(self)
        try:
            self._ident = _thread.start_new_thread(self._run, ())
        except RuntimeError:
            _running.discard(self)
            raise

    def join(self, timeout_s: float | None = None) -> None:
        """Wait at most ``timeout_s`` for the end; returns at once in the thread itself."""
        if self.is_alive():
            self._ended.wait(timeout_s)

    def request_end(self) -> None:
        """Request the end and return at once. No effect on a thread that has ended."""
        if self.is_alive():
            self._request_end()

    def is_alive(self) -> bool:
        """Whether the thread runs and is not the calling thread."""
        is_here = self._process == os.getpid() and self._ident is not None
        return is_here and not self._ended.is_set() and self._ident != _thread.get_ident()

    def _run(self) -> None:
        try:
            self._function()
        finally:
            _running.discard(self)
            self._ended.set()


def let_others_run() -> None:
    """Release the GIL to a waiting thread, which otherwise gets it after 5 ms."""
    time.sleep(_YIELD_S)


def _end_all() -> None:
    """Request the end of all threads before waiting for any."""
    running = tuple(_running)
    for thread in running:
        thread.request_end()
    until_s = time.monotonic() + _AT_EXIT_S
    for thread in running:
        thread.join(max(until_s - time.monotonic(), 0))


atexit.register(_end_all)

_TURN_US = 200


class _ShortTurns:
    """Lowers ``sys.setswitchinterval`` to 0.2 ms while opscope threads work; threads may nest.

    A thread that waits for the GIL requests it after that interval, 5 ms by default, and the holder
    releases it at its next loop or call. So opscope's threads would delay the program's by 5 ms.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._programs_us = 0

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._programs_us = _interval_us()
                if self._programs_us > _TURN_US:
                    _set_interval_us(_TURN_US)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._restore()

    def _restore(self) -> None:
        """Restore the interval, unless the program has set another one meanwhile."""
        if _interval_us() == _TURN_US:
            _set_interval_us(self._programs_us)

    def after_fork_in_child(self) -> None:
        """Reset the count: the threads inside do not exist in the child."""
        self._lock = threading.Lock()
        if self._inside:
            self._inside = 0
            self._restore()


def _interval_us() -> int:
    """Switch interval as Python stores it: its value in seconds is rounded."""
    return round(sys.getswitchinterval() * 1e6)


def _set_interval_us(interval_us: int) -> None:
    """Set the interval. Python truncates to microseconds, so half a microsecond is added."""
    sys.setswitchinterval((interval_us + 0.5) / 1e6)


short_turns = _ShortTurns()  # context manager for an opscope thread at work

os.register_at_fork(after_in_child=short_turns.after_fork_in_child)
