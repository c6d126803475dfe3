"""Code of the program's that a flight recorder calls: conditions, and the ends of triggers.

Such code may wait: for a lock, an answer, for ever. So it runs in threads of its own, one for each
trigger, and nothing of the recorder waits for it longer than is written here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from opscope.base.daemon_thread import OwnThread
from opscope.live.flight.trigger import Trigger

T = TypeVar("T")

LIMIT_S = 2.0
"""So long the recorder waits for an answer of such code, and for all of it at its end together."""
_LEAST_S = 0.01
_LONGEST_TEXT = 1000


class NotReturnedError(Exception):
    """A function has not returned in time, or an earlier call of it still runs."""


class AskedCondition:
    """Asks one trigger what it sees, every so often, in a thread of its own."""

    def __init__(
        self,
        trigger: Trigger,
        dump: Callable[[Trigger, str], object],
        failed: Callable[[str, BaseException], None],
    ) -> None:
        """Prepare it.

        Args:
            trigger: with an ``every_s``.
            dump: asks for one, and does not wait for it.
            failed: counts what goes wrong, by what it was.
        """
        self._trigger, self._dump, self._failed = trigger, dump, failed
        self._every_s = max(trigger.every_s or 0.0, _LEAST_S)
        self._ending = threading.Event()
        self._is_called = False
        self._thread = OwnThread(self._run, self._ending.set)

    def begin(self) -> None:
        """Ask from now on."""
        self._thread.start()

    def ask_to_end(self) -> None:
        """Ask no more; returns at once."""
        self._thread.ask_to_end()

    def join(self, until_s: float) -> None:
        """Wait for the running condition, unless that one ends the recorder itself."""
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
            except BaseException as error:  # also sys.exit(): it is not the program's thread
                self._failed(self._what, error)
                continue
            finally:
                self._is_called = False
            if text is not None and not self._ending.is_set():
                self._dump(self._trigger, text)


class LimitedCalls:
    """Calls functions one at a time, each in a thread, and waits for no one of them for long."""

    def __init__(self) -> None:
        self._thread: OwnThread | None = None

    def call(self, function: Callable[[], T], limit_s: float = LIMIT_S) -> T:
        """What it returns.

        Raises:
            NotReturnedError: it has not, or the one before it still has not.
            Exception: what it raises; ``RuntimeError`` where that is none, as with sys.exit().
        """
        if self._thread is not None and self._thread.is_alive():
            raise NotReturnedError("an earlier call of it has not returned")
        returned: list[T] = []
        raised: list[BaseException] = []

        def run() -> None:
            try:
                returned.append(function())
            except BaseException as error:
                raised.append(error)

        self._thread = OwnThread(run, _no_way)
        self._thread.start()
        self._thread.join(limit_s)
        if raised and isinstance(raised[0], Exception):
            raise raised[0]
        if raised:
            raise RuntimeError(f"it raised {type(raised[0]).__name__}") from raised[0]
        if not returned:
            raise NotReturnedError(f"it has not returned within {limit_s:g} s")
        return returned[0]


def _no_way() -> None:
    """To have a function of the program's end."""


def is_ours(trigger: Trigger) -> bool:
    """Whether what ends it is opscope's, and not the program's."""
    return type(trigger).end.__module__.startswith("opscope.")


def end_triggers(triggers: Iterable[Trigger]) -> None:
    """Have them leave everything as it was, the last first: their hooks stand before each other."""
    until_s = time.monotonic() + LIMIT_S
    for trigger in triggers:
        try:
            if is_ours(trigger):
                trigger.end()
            else:
                LimitedCalls().call(trigger.end, max(until_s - time.monotonic(), 0))
        except Exception:  # it is counted nowhere any more
            continue
