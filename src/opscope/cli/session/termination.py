"""Runs a last action before the process ends, and handles signals while opscope works."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import opscope._native as _native

FATAL_SIGNALS = tuple(
    number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None
)
"""Signals that kill a Python program at once unless it handles them (no SIGHUP on Windows).

SIGINT is not one: Python turns it into KeyboardInterrupt, which ends a program normally.
"""

_PATIENCE = b"opscope: writing the recording; press Ctrl-C again to lose it.\n"


class LastAction:
    """Calls ``action`` once: at exit, or before a fatal signal kills the process.

    The action runs at exit after the program's non-daemon threads have ended and after its atexit
    functions, which were registered later and so run earlier. Signals that the program handles or
    ignores, now or later, do not run the action. Any other fatal signal kills the process after the
    action, so that the parent sees the same status. The first Ctrl-C during the action only prints
    a message, because people press it twice. Forked children have no action, and their signals get
    the default handler: a child must die at once even if it runs C code.
    """

    def __init__(self, action: Callable[[], None]) -> None:
        """``action`` must not raise. Main thread only."""
        self._action = action
        self._process = os.getpid()
        self._has_begun = False
        self._has_ended = False
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
        """Note that an uncaught KeyboardInterrupt ends the program."""
        self._interrupted = True

    def cancel(self) -> None:
        """Do not run the action."""
        self._has_begun = self._has_ended = True

    def _at_exit(self) -> None:
        self._run()
        if self._died_of is not None:
            self._die(self._died_of)
        if self._interrupted:
            _reraise_interrupt()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._has_begun and not self._has_ended:
            self._died_of = number  # _at_exit() raises it after the action
            if _may_leave:
                raise KeyboardInterrupt
        else:
            self._run()
            self._die(number)

    def _run(self) -> None:
        if os.getpid() == self._process:
            self._section.run(self._run_once, self._run_once)

    def _run_once(self) -> None:
        if self._has_begun:
            return
        has_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if has_default:
            signal.signal(signal.SIGINT, self._on_interrupt)
        try:
            self._has_begun = True
            self._action()
            self._has_ended = True
        finally:
            if has_default:
                signal.signal(signal.SIGINT, signal.default_int_handler)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if _may_leave or not self._is_patient:
            raise KeyboardInterrupt
        self._is_patient = False
        with contextlib.suppress(OSError):
            os.write(2, _PATIENCE)  # not sys.stderr: the signal may interrupt a write to it

    def _in_child(self) -> None:
        self.cancel()
        for number in FATAL_SIGNALS:
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, signal.SIG_DFL)

    def _die(self, number: int) -> None:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


_may_leave: list[bool] = []
"""Not empty while opscope only waits for another process, and an interruption loses nothing."""


@contextlib.contextmanager
def leaving_at_once() -> Iterator[None]:
    """In this block, Ctrl-C and fatal signals raise KeyboardInterrupt at once."""
    _may_leave.append(True)
    try:
        yield
    finally:
        _may_leave.pop()


@contextlib.contextmanager
def interrupts_wait() -> Iterator[None]:
    """Delay the first Ctrl-C to the end of this block, in which opscope writes; not the second.

    Otherwise the output would be lost, and sometimes the interruption too: NumPy drops exceptions
    of signal handlers when it looks up methods of arguments, and Python drops them in callbacks of
    weak references.
    """
    received: list[bool] = []

    def note() -> None:
        if received:
            raise KeyboardInterrupt
        received.append(True)
        with contextlib.suppress(OSError):
            os.write(2, _PATIENCE)

    try:
        with on_interrupt(note):
            yield
    finally:
        if received:
            raise KeyboardInterrupt


@contextlib.contextmanager
def on_interrupt(action: Callable[[], object] | signal.Handlers) -> Iterator[None]:
    """In this block, Ctrl-C has this action; ``SIG_DFL`` kills the process.

    Both are certain. The exception that Python raises is not: imports and NumPy may drop it, and
    the import of a C extension may raise another one instead. No effect if SIGINT is ignored or has
    another handler, and in threads other than the main thread.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    is_default = isinstance(action, signal.Handlers)
    signal.signal(signal.SIGINT, action if is_default else lambda *_: action())  # type: ignore[arg-type, operator]
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def unwound_when_ended() -> Iterator[None]:
    """A fatal signal raises KeyboardInterrupt in this block, and kills the process after it; a
    second one kills at once.

    No effect on signals with another handler or ignored ones, and in threads other than the main
    thread, because Python runs handlers only there.
    """
    received: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        for each in handled:
            signal.signal(each, signal.SIG_DFL)
        received.append(number)
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()
    signals = FATAL_SIGNALS if is_main else ()
    handled = [number for number in signals if signal.getsignal(number) == signal.SIG_DFL]
    for number in handled:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
        if received:
            os.kill(os.getpid(), received[0])


def _reraise_interrupt() -> None:
    # Python kills itself by SIGINT, as a shell expects, if the last source text that it executed
    # ended in KeyboardInterrupt. The action may have executed another (dataclasses do).
    with contextlib.suppress(KeyboardInterrupt):
        exec("raise KeyboardInterrupt")
