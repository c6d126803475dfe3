"""Triggers of dumps: the interface, simple triggers, and calls of their conditions.

A condition may block for ever, for example on a lock. So each has its own thread.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

import opscope._native as _native
from opscope.base.daemon_thread import OwnThread
from opscope.base.quantity_text import count_bytes, nanoseconds
from opscope.errors import UsageError
from opscope.torch_api.steps import NEVER


@dataclass(frozen=True)
class Watched:
    """The parts of its recorder that a trigger uses."""

    dump: Callable[[str], None]  # requests a dump with a description; returns at once
    watch: _native.Watch  # the recorder's native thread
    steps: _native.StepCounter


class Trigger:
    """A condition that makes a dump; the base class makes none.

    A trigger belongs to one recorder at a time. Exceptions of ``settings`` and ``begin`` make the
    recorder's ``start`` fail, which then changes nothing. Exceptions of ``look`` are counted, those
    of ``end`` ignored.
    """

    name = ""
    """The reason in dumps, and part of their folder's name."""
    every_s: float | None = None
    """How often :meth:`look` is called; None: never."""

    def settings(self) -> dict[str, int | bool]:
        """Arguments of the native watch."""
        return {}

    def begin(self, watched: Watched) -> None:
        """Install hooks; called when the recorder starts."""

    def end(self) -> None:
        """Remove hooks; called when the recorder stops, also without ``begin``."""

    def look(self) -> str | None:
        """The reason for a dump now; None without one. Called on a separate thread."""
        return None


class GcPause(Trigger):
    """Dumps after a pause of Python's collector that is longer than ``longer_than``."""

    name = "gc pause"

    def __init__(self, longer_than: str | float = "100ms") -> None:
        """Set the limit.

        Raises:
            UsageError: ``longer_than`` is not a duration.
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
            pause_ns = time.perf_counter_ns() - self._began_ns
            if pause_ns > self._limit_ns and self._watched is not None:
                generation = info.get("generation", -1)
                self._watched.dump(f"generation {generation} took {pause_ns / 1e6:,.1f} ms")


class Hang(Trigger):
    """Dumps once when no step ends for a while, with the Python stack of every thread.

    A native thread without the GIL detects the hang, and writes the dump if another thread holds
    the GIL. A hang makes one dump; the next dump needs a step in between.
    """

    name = "hang"

    def __init__(self, after: str | float = "120s", without_steps: bool = False) -> None:
        """Set the limit.

        Args:
            after: time without a step.
            without_steps: for programs without steps, dump after this time without any event. Not
                for programs that may be idle, such as servers and notebooks.

        Raises:
            UsageError: ``after`` is not a duration.
        """
        self._after_ns = nanoseconds(after, "Hang(after=...)")
        self._without_steps = without_steps

    def settings(self) -> dict[str, int | bool]:
        """Arguments of the native watch."""
        return {"standstill_ns": self._after_ns, "needs_steps": not self._without_steps}


class MemoryJump(Trigger):
    """Dumps when the resident memory of the process grows quickly.

    A native thread reads it ten times a second. For memory of devices use :class:`When`.
    """

    name = "memory jump"

    def __init__(self, by: str | int = "1GiB", within: str | float = "10s") -> None:
        """Set the growth, and the time in which it happens.

        Raises:
            UsageError: ``by`` is not a size, or ``within`` not a duration.
        """
        self._by_bytes = count_bytes(by, "MemoryJump(by=...)")
        self._within_ns = nanoseconds(within, "MemoryJump(within=...)")

    def settings(self) -> dict[str, int | bool]:
        """Arguments of the native watch."""
        return {"memory_jump_bytes": self._by_bytes, "memory_jump_ns": self._within_ns}


_RESERVED = {"SIGKILL", "SIGSTOP", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGINT"}
_RESERVED |= {"SIGTERM", "SIGCHLD", "SIGPIPE", "SIGALRM", "SIGPROF", "SIGCONT", "SIGHUP"}


class OnSignal(Trigger):
    """Dumps when the process receives a signal, also while Python is blocked in C code.

    The handler is native and only sets a bit, so it cannot deadlock. It calls the previous handler.
    If the program sets a handler later, that handler replaces this one.
    """

    name = "signal"

    def __init__(self, signal_name: str | int = "SIGUSR2") -> None:
        """Choose a signal that the program does not use.

        Raises:
            UsageError: there is no such signal, or the system uses it.
        """
        self._number = _number_of(signal_name)
        self._watch: Watched | None = None

    def begin(self, watched: Watched) -> None:
        """Set the handler."""
        error = watched.watch.catch_signal(self._number)
        if error:
            raise UsageError(
                f"{signal.Signals(self._number).name} cannot be received: {os.strerror(error)}. "
                "Choose another signal, or use one flight recorder for it."
            )
        self._watch = watched

    def end(self) -> None:
        """Restore the previous handler."""
        if self._watch is not None:
            self._watch.watch.ignore_signal(self._number)
            self._watch = None


def _number_of(name: str | int) -> int:
    try:
        chosen = signal.Signals(name) if isinstance(name, int) else signal.Signals[name]
    except (ValueError, KeyError):
        raise UsageError(f"There is no signal {name!r}. Use SIGUSR1 or SIGUSR2.") from None
    if chosen.name in _RESERVED:
        raise UsageError(f"{chosen.name} is used by the system. Use SIGUSR1 or SIGUSR2.")
    return int(chosen)


class When(Trigger):
    """Dumps when ``condition()`` is true; a separate thread calls it every ``every``.

    A condition that stays true makes one dump; the next dump needs a false result in between.
    """

    def __init__(
        self, condition: Callable[[], object], every: str | float = "1s", name: str = "condition"
    ) -> None:
        """Set the condition.

        Args:
            condition: returns a false or a true value; the dump contains its text.
            every: interval between calls.
            name: the reason in dumps.

        Raises:
            UsageError: ``condition`` is not callable, or ``every`` is not a duration.
        """
        if not callable(condition):
            raise UsageError(f"When({condition!r}) is not callable. Pass a function.")
        self.name = name
        self.every_s = nanoseconds(every, "When(every=...)") / 1e9
        self._condition = condition
        self._was_true = False

    def look(self) -> str | None:
        """Call the condition; returns a text if its result changed to true."""
        result = self._condition()
        is_new, self._was_true = bool(result) and not self._was_true, bool(result)
        return (result if isinstance(result, str) else "it became true") if is_new else None


LIMIT_S = 2.0
"""Longest wait for all conditions at the recorder's end."""
_SHORTEST_INTERVAL_S = 0.01
_LONGEST_TEXT = 1000


class NotReturnedError(Exception):
    """A condition did not return in time."""


class PolledCondition:
    """Calls one trigger's condition at intervals, in a thread of its own."""

    def __init__(
        self,
        trigger: Trigger,
        dump: Callable[[Trigger, str], object],
        failed: Callable[[str, BaseException], None],
    ) -> None:
        """``dump`` requests a dump and returns at once; ``failed`` reports an error."""
        self._trigger, self._dump, self._failed = trigger, dump, failed
        self._every_s = max(trigger.every_s or 0.0, _SHORTEST_INTERVAL_S)
        self._ending = threading.Event()
        self._is_called = False
        self._thread = OwnThread(self._run, self._ending.set)

    def begin(self) -> None:
        """Start calling the condition."""
        self._thread.start()

    def request_end(self) -> None:
        """Stop calling the condition; returns at once."""
        self._thread.request_end()

    def join(self, until_s: float) -> None:
        """Wait for a running condition; returns at once if the condition ends the recorder."""
        self._thread.join(max(until_s - time.monotonic(), 0))
        if self._is_called and self._thread.is_alive():
            self._failed(self._what, NotReturnedError("it has not returned"))

    @property
    def _what(self) -> str:
        return f"the trigger {self._trigger.name!r}"

    def _run(self) -> None:
        while not self._ending.wait(self._every_s):
            self._is_called = True
            try:
                detail = self._trigger.look()
                text = None if detail is None else str.__str__(detail)[:_LONGEST_TEXT]
            except BaseException as error:  # sys.exit() too: this is not the program's thread
                self._failed(self._what, error)
                continue
            finally:
                self._is_called = False
            if text is not None and not self._ending.is_set():
                self._dump(self._trigger, text)


def end_triggers(triggers: Iterable[Trigger]) -> None:
    """End triggers in the given order; ignores errors, because nothing reports them any more."""
    for trigger in triggers:
        with suppress(Exception, SystemExit):
            trigger.end()


_REFRESHED_EVERY = 16
_WAIT_ERROR_INVERSE = 10
"""Inverse of the relative error of a step's wait: the kernel counts only at context switches."""


class SlowStep(Trigger):
    """Dumps after a step that took ``factor`` times as long as ``quantile`` of the last 200.

    A step ends with ``profile.step()`` or the recorder's ``step()``; in a program that calls
    neither, with ``step()`` of the first optimizer.

    Waits of the step's thread for a CPU are not included, unless the kernel does not count them.
    Time in which the process was stopped (Ctrl-Z) is included.
    """

    name = "slow step"

    def __init__(
        self,
        factor: float = 3.0,
        quantile: float = 0.9,
        warm_up: int = 20,
        at_least: str | float = "50ms",
    ) -> None:
        """Set the limit.

        Args:
            factor: ratio to the quantile.
            quantile: quantile of the previous steps; 0.5 is their median.
            warm_up: number of first steps that make no dump, because they import, compile and
                choose algorithms.
            at_least: minimum difference to the median: on a busy machine, some steps of 1 ms take
                ten times as long.

        Raises:
            UsageError: an argument is invalid.
        """
        if not (factor > 1 and 0 <= quantile <= 1 and warm_up >= 1):
            raise UsageError(
                f"SlowStep(factor={factor}, quantile={quantile}, warm_up={warm_up}): use a factor "
                "above 1, a quantile from 0 to 1, and at least one step of warm-up."
            )
        self._factor, self._quantile, self._warm_up = factor, quantile, warm_up
        self._at_least_ns = nanoseconds(at_least, "SlowStep(at_least=...)")
        self._limit_ns = NEVER
        self._watched: Watched | None = None
        self._alarm: _native.StepAlarm | None = None

    def begin(self, watched: Watched) -> None:
        """Start counting steps."""
        self._limit_ns, self._watched = NEVER, watched
        self._alarm = watched.steps.alarm(self.step_ended)
        self._alarm.at = self._warm_up

    def end(self) -> None:
        """Stop counting steps."""
        self._watched = self._alarm = None

    def step_ended(self, duration_ns: int) -> None:
        """Request a dump for a slow step, and update the limit; on the thread of the step."""
        watched, alarm = self._watched, self._alarm
        if watched is None or alarm is None:
            return
        ended, waited_ns = watched.steps.count, watched.steps.waited_ns
        wait_ns = waited_ns or 0
        if duration_ns - wait_ns - wait_ns // _WAIT_ERROR_INVERSE > self._limit_ns:
            watched.dump(
                f"step {ended} took {duration_ns / 1e6:,.1f} ms{_wait_text(waited_ns)}, "
                f"the limit was {self._limit_ns / 1e6:,.1f} ms"
            )
        if ended >= alarm.at:
            self._limit_ns = self._limit(sorted(watched.steps.own_durations_ns))
            alarm.own_above_ns = self._limit_ns
            alarm.at = ended + _REFRESHED_EVERY - ended % _REFRESHED_EVERY

    def _limit(self, times_ns: list[int]) -> int:
        """Limit in nanoseconds, from the sorted durations of the last steps."""
        if not times_ns:
            return NEVER
        rank = min(int(self._quantile * len(times_ns)), len(times_ns) - 1)
        median_ns = times_ns[len(times_ns) // 2]
        return int(max(times_ns[rank] * self._factor, median_ns + self._at_least_ns))


def _wait_text(waited_ns: int | None) -> str:
    if waited_ns is None:
        return " (its waits for a CPU are unknown)"
    return f" ({waited_ns / 1e6:,.1f} ms of them waiting for a CPU)"
