"""Do work in a child process where the program has limited what its process may use.

A program may lower its own limits: address space, processor time, size of files. Whatever it ends
with, it then leaves too little for writing a trace, and libraries answer that with an abort or a
signal, which would end the program in another way than it ends by itself. In a child such an end
is a status that can be told; and limits that may be raised again are raised, for the child alone.
"""

from __future__ import annotations

import contextlib
import faulthandler
import mmap
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

from opscope import _native

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

_KILL_OR_FAIL = ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_CPU", "RLIMIT_FSIZE")
"""What a process may not use more of without being ended, or failing where nothing can be done."""

_RAISED = (*_KILL_OR_FAIL, "RLIMIT_NOFILE")
_FEWEST_FILES = 64
"""Open at once; some are the program's."""

_forking: set[int] = set()
"""Threads that are in :meth:`ChildProcess.run`."""

_LONGEST_S = 600.0
_TOLD_BYTES = 16 << 10
_POLL_S = (0.002, 0.05)


def is_own_child() -> bool:
    """Whether this process was forked by opscope, to do work of opscope's."""
    return threading.get_ident() in _forking


def is_limited() -> bool:
    """Whether this process could be ended by using more of something."""
    if resource is None:
        return False
    if 0 <= resource.getrlimit(resource.RLIMIT_NOFILE)[0] < _FEWEST_FILES:
        return True
    return any(
        resource.getrlimit(getattr(resource, name))[0] != resource.RLIM_INFINITY
        for name in _KILL_OR_FAIL
        if hasattr(resource, name)
    )


class ChildProcess:
    """Runs one action after the other, each in a child of its own.

    Made while there still is room: what the child tells needs some that both can write to. Its
    exit status alone does not do, since the program may wait for all children itself.
    """

    def __init__(self, longest_s: float = _LONGEST_S) -> None:
        self._longest_s = longest_s
        self._came_to_the_end = mmap.mmap(-1, 1)
        self._told = mmap.mmap(-1, _TOLD_BYTES)

    def tell(self, text: str) -> None:
        """In the child: leave a text for its parent."""
        encoded = os.fsencode(text)[: _TOLD_BYTES - 1]
        self._told[: len(encoded) + 1] = encoded + b"\0"

    @property
    def told(self) -> str:
        """What the last child told; empty if nothing."""
        return os.fsdecode(self._told[:].partition(b"\0")[0])

    def run(self, action: Callable[[], None]) -> tuple[int, str]:
        """Call ``action`` in a child process and wait for it.

        Returns:
            The child's process id, and what became of it unless it came to the end of ``action``.

        Raises:
            OSError: no process can be started.
        """
        self._came_to_the_end[0] = self._told[0] = 0
        parent = os.getpid()
        thread = threading.get_ident()
        _forking.add(thread)  # also for what runs in the child before the next line does
        try:
            child = _native.fork_process()
        finally:
            if os.getpid() == parent:
                _forking.discard(thread)
        if child == 0:
            try:
                _prepare(self._longest_s)
                action()
                self._came_to_the_end[0] = 1
            finally:
                os._exit(0)
        try:
            status = _wait(child, self._longest_s)
        except BaseException:  # an interrupt of the user's is meant for the child's work
            _kill(child)
            raise
        return child, "" if self._came_to_the_end[0] else _describe(status)


def _prepare(longest_s: float) -> None:
    """Prepare the child: no signal, limit or core dump of the program's should end it early."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGXFSZ", "SIGXCPU", "SIGPIPE"):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    # The parent kills a child that hangs. This timer does if the parent was killed meanwhile.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    signal.setitimer(signal.ITIMER_REAL, longest_s + 1)
    faulthandler.disable()
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:  # its own pools reserve far more address space than they use
        arrow.set_memory_pool(arrow.system_memory_pool())
    _set_soft_limit("RLIMIT_CORE", lambda hard: 0)
    for name in _RAISED:
        _set_soft_limit(name, lambda hard: hard)


def _set_soft_limit(name: str, wanted: Callable[[int], int]) -> None:
    with contextlib.suppress(AttributeError, OSError, ValueError):
        limit = getattr(resource, name)
        _, hard = resource.getrlimit(limit)
        resource.setrlimit(limit, (wanted(hard), hard))


def _wait(child: int, longest_s: float) -> int | None:
    """The child's wait status; None if it was still busy after ``longest_s``, and was killed.

    0 where the program waited for it first.
    """
    deadline, pause_s = time.monotonic() + longest_s, _POLL_S[0]
    while time.monotonic() < deadline:
        try:
            ended, status = os.waitpid(child, os.WNOHANG)
        except ChildProcessError:
            return 0
        if ended:
            return status
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _POLL_S[1])
    _kill(child)
    return None


def _kill(child: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _describe(status: int | None) -> str:
    if status is None:
        return "did not come to an end"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = next((s.name for s in signal.Signals if s == number), f"signal {number}")
        return f"was ended by {name}"
    is_full = os.WEXITSTATUS(status) == _native.UNCAUGHT_EXCEPTION
    return "ran out of memory" if is_full else "failed"
