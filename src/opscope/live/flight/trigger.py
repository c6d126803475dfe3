"""Triggers of dumps: the interface, and simple triggers."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from opscope import _native
from opscope.base.quantity_text import count_bytes, nanoseconds
from opscope.errors import UsageError


@dataclass(frozen=True)
class Watched:
    """What a trigger has of the recorder that it belongs to."""

    # asks for a dump and returns at once; takes what happened, in words. From any thread
    dump: Callable[[str], None]
    watch: _native.Watch  # the recorder's native thread
    steps: _native.StepCounter  # of the program


class Trigger:
    """Something that makes a dump worth having; the base class never does.

    One trigger belongs to one recorder at a time. What ``settings`` and ``begin`` raise is raised
    by the recorder's ``start``, which then leaves everything as it was. What ``look`` raises stops
    neither the recorder nor the program, and is counted; what ``end`` raises is passed over.
    """

    name = ""
    """What dumps say of it, and part of their folder's name."""
    every_s: float | None = None
    """How often :meth:`look` is called; None: never."""
    news = ""
    """What the native watch calls what this waits for, if that is what sees it."""

    def settings(self) -> dict[str, int | bool]:
        """Arguments of the native watch."""
        return {}

    def begin(self, watched: Watched) -> None:
        """The recorder starts: set up what is needed to notice."""

    def end(self) -> None:
        """The recorder stops: leave everything as it was. May be called without ``begin``."""

    def look(self) -> str | None:
        """What is worth a dump at this moment, in words. Called on a thread of its own."""
        return None


class GcPause(Trigger):
    """Dumps after a pause of Python's collector that is longer than ``longer_than``."""

    name = "gc pause"

    def __init__(self, longer_than: str | float = "100ms") -> None:
        """Say what is long.

        Raises:
            UsageError: it is no time.
        """
        self._limit_ns = nanoseconds(longer_than, "GcPause(longer_than=...)")
        self._watched: Watched | None = None
        self._began_ns = 0

    def begin(self, watched: Watched) -> None:
        """Hook garbage collections."""
        self._watched, self._began_ns = watched, 0
        gc.callbacks.append(self._collecting)

    def end(self) -> None:
        """Remove the hook."""
        self._watched = None
        if self._collecting in gc.callbacks:
            gc.callbacks.remove(self._collecting)

    def _collecting(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began_ns = time.perf_counter_ns()
        elif self._began_ns:
            took_ns = time.perf_counter_ns() - self._began_ns
            if took_ns > self._limit_ns and self._watched is not None:
                generation = info.get("generation", -1)
                self._watched.dump(f"generation {generation} took {took_ns / 1e6:,.1f} ms")


class Hang(Trigger):
    """Dumps once when no step ends for a while, with the Python stack of every thread.

    It is seen by a native thread that needs no GIL. While the GIL is held, that thread writes the
    dump too. One dump for a standstill; the next takes a step in between.
    """

    name = "hang"
    news = "standstill"

    def __init__(self, after: str | float = "120s", without_steps: bool = False) -> None:
        """Say what standing still is.

        Args:
            after: so long without a step.
            without_steps: also in a program that makes none: so long without any event. Not for
                programs that may have nothing to do, such as servers and notebooks.

        Raises:
            UsageError: ``after`` is no time.
        """
        self._after_ns = nanoseconds(after, "Hang(after=...)")
        self._without_steps = without_steps

    def settings(self) -> dict[str, int | bool]:
        """What the native thread looks for."""
        return {"standstill_ns": self._after_ns, "needs_steps": not self._without_steps}


class MemoryJump(Trigger):
    """Dumps when the process has much more memory resident than a moment ago.

    Looked at ten times a second, by a native thread. For memory of devices use :class:`When`.
    """

    name = "memory jump"
    news = "memory"

    def __init__(self, by: str | int = "1GiB", within: str | float = "10s") -> None:
        """Say how much, in which time.

        Raises:
            UsageError: one of them is no size, or no time.
        """
        self._by_bytes = count_bytes(by, "MemoryJump(by=...)")
        self._within_ns = nanoseconds(within, "MemoryJump(within=...)")

    def settings(self) -> dict[str, int | bool]:
        """What the native thread looks for."""
        return {"memory_jump_bytes": self._by_bytes, "memory_jump_ns": self._within_ns}


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
                f"{signal.Signals(self._number).name} cannot be received: {os.strerror(error)}. "
                "Choose another signal, or use one flight recorder for it."
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
        raise UsageError(f"{known.name} is used by the system. Use SIGUSR1 or SIGUSR2.")
    return int(known)


class When(Trigger):
    """Dumps when ``condition()`` says so, asked every ``every`` on a thread of its own.

    A blocking condition is called again after it has returned; nothing else waits for it.

    It is true from one dump until it has been false: a condition that stays true is one dump.
    """

    def __init__(
        self, condition: Callable[[], object], every: str | float = "1s", name: str = "condition"
    ) -> None:
        """Give the condition.

        Args:
            condition: returns something false, or something true: a text of it goes into the dump.
            every: interval between calls.
            name: what dumps call it.

        Raises:
            UsageError: it cannot be called, or ``every`` is no time.
        """
        if not callable(condition):
            raise UsageError(f"When({condition!r}) is not callable. Pass a function.")
        self.name = name
        self.every_s = nanoseconds(every, "When(every=...)") / 1e9
        self._condition = condition
        self._was_true = False

    def look(self) -> str | None:
        """Ask it."""
        result = self._condition()
        is_new, self._was_true = bool(result) and not self._was_true, bool(result)
        return (result if isinstance(result, str) else "it became true") if is_new else None
