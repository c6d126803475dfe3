"""Do one last thing before the process ends, by whichever of the ends that it can notice."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from opscope import _native

FATAL_SIGNALS = tuple(
    number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None
)
"""Requests to end that kill a Python program at once unless it handles them (no SIGHUP on Windows).

SIGINT is not among them: Python turns it into KeyboardInterrupt, which ends a program normally.
"""

_PATIENCE = b"opscope: writing what was recorded; press Ctrl-C again to lose it.\n"


class LastAction:
    """Calls ``action`` once: at exit, or before a fatal signal kills the process.

    At exit means after the program's non-daemon threads ended and after its own atexit functions,
    because those are registered later and so run earlier. Signals that the program handles or
    ignores, now or later, are left to it. Any other signal still kills the process after the
    action, so that its parent sees the same status. The first Ctrl-C during the action is answered
    with a message only, because people press it twice. In forked children, which have no action to
    do, signals get their default back: a child must die at once even while it is busy outside
    Python.
    """

    def __init__(self, action: Callable[[], None]) -> None:
        """``action`` must not raise. Main thread only."""
        self._action = action
        self._process = os.getpid()
        self._begun = False
        self._ended = False
        self._interrupted = False
        self._is_patient = True
        self._section = _native.Section()
        self._died_of: int | None = None
        atexit.register(self._section.run, self._at_exit, self._at_exit)
        for number in FATAL_SIGNALS:
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, self._on_signal)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._in_child)

    def after_interrupt(self) -> None:
        """Tell that the program is ending by an uncaught KeyboardInterrupt."""
        self._interrupted = True

    def cancel(self) -> None:
        """Do nothing at the end after all."""
        self._begun = self._ended = True

    def _at_exit(self) -> None:
        self._run()
        if self._died_of is not None:
            self._die(self._died_of)
        if self._interrupted:
            _reraise_interrupt()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._begun and not self._ended:
            self._died_of = number  # acted upon when the action has ended
            if _may_leave:
                raise KeyboardInterrupt
        else:
            self._run()
            self._die(number)

    def _run(self) -> None:
        if os.getpid() == self._process:
            self._section.run(self._run_once, self._run_once)

    def _run_once(self) -> None:
        if self._begun:
            return
        has_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if has_default:
            signal.signal(signal.SIGINT, self._on_interrupt)
        try:
            self._begun = True
            self._action()
            self._ended = True
        finally:
            if has_default:
                signal.signal(signal.SIGINT, signal.default_int_handler)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if _may_leave or not self._is_patient:
            raise KeyboardInterrupt
        self._is_patient = False
        with contextlib.suppress(OSError):
            os.write(2, _PATIENCE)  # not through sys.stderr, which may be in the middle of writing

    def _in_child(self) -> None:
        self.cancel()
        for number in FATAL_SIGNALS:
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, signal.SIG_DFL)

    def _die(self, number: int) -> None:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


_may_leave: list[bool] = []
"""Not empty while opscope only waits for another process: then nothing is lost by leaving."""


@contextlib.contextmanager
def leaving_at_once() -> Iterator[None]:
    """A key or signal that ends the process ends this block."""
    _may_leave.append(True)
    try:
        yield
    finally:
        _may_leave.pop()


@contextlib.contextmanager
def interrupts_wait() -> Iterator[None]:
    """While opscope writes in the middle of the program, the first Ctrl-C waits until it has.

    Then it is raised in the program; a second one is at once. Otherwise what the user waits for
    were lost, and sometimes the interruption: NumPy drops exceptions of signal handlers when it
    looks for methods of what it is given, as Python does in callbacks of weak references.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    came: list[int] = []

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        if came:
            raise KeyboardInterrupt
        came.append(number)
        with contextlib.suppress(OSError):
            os.write(2, _PATIENCE)

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is on_interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if came:
            raise KeyboardInterrupt


@contextlib.contextmanager
def unwound_when_ended() -> Iterator[None]:
    """Requests to end raise KeyboardInterrupt in the body; the process dies of the first once that
    has left everything as it was. A second one kills at once.

    Signals with another handler, or ignored ones, are not changed, and all where another thread
    than the main one asks, as Python hands them to that alone.
    """
    came: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)
        came.append(number)
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()
    signals = FATAL_SIGNALS if is_main else ()
    ours = [number for number in signals if signal.getsignal(number) == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
        if came:
            os.kill(os.getpid(), came[0])


def _reraise_interrupt() -> None:
    # Python kills itself by SIGINT, as a shell expects, if the last source text it executed ended
    # in KeyboardInterrupt. The action may have executed some (dataclasses are made that way).
    with contextlib.suppress(KeyboardInterrupt):
        exec("raise KeyboardInterrupt")
