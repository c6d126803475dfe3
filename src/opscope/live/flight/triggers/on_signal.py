"""A signal from outside: ``kill -USR2 PID``."""

from __future__ import annotations

import os
import signal

from opscope.errors import UsageError
from opscope.live.flight.triggers.trigger import Trigger, Watched

_LEFT_ALONE = {"SIGKILL", "SIGSTOP", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGINT"}
_LEFT_ALONE |= {"SIGTERM", "SIGCHLD", "SIGPIPE", "SIGALRM", "SIGPROF", "SIGCONT", "SIGHUP"}


class OnSignal(Trigger):
    """Dumps when the process gets a signal, also while Python is stuck in C code.

    The handler is native and only sets a bit, so it cannot deadlock; what handled the signal before
    is called after it. A program that sets a handler of its own later has the signal for itself.
    """

    name = "signal"
    news = "signal"

    def __init__(self, signal_name: str | int = "SIGUSR2") -> None:
        """Take a signal that has no other meaning to the program.

        Raises:
            UsageError: there is no such signal, or it means something else.
        """
        self._number = _number_of(signal_name)
        self._watch: Watched | None = None

    def begin(self, watched: Watched) -> None:
        """Set the handler."""
        error = watched.watch.hear_signal(self._number)
        if error:
            raise UsageError(
                f"{signal.Signals(self._number).name} cannot be heard: {os.strerror(error)}. "
                "Choose another signal, or one flight recorder for it."
            )
        self._watch = watched

    def end(self) -> None:
        """Set back the one before."""
        if self._watch is not None:
            self._watch.watch.ignore_signal(self._number)
            self._watch = None


def _number_of(given: str | int) -> int:
    try:
        known = signal.Signals(given) if isinstance(given, int) else signal.Signals[given]
    except (ValueError, KeyError):
        raise UsageError(f"There is no signal {given!r}. Use SIGUSR1 or SIGUSR2.") from None
    if known.name in _LEFT_ALONE:
        raise UsageError(
            f"{known.name} has a meaning of its own, which a dump would take away. Use SIGUSR1 or "
            "SIGUSR2."
        )
    return int(known)
