"""The program's code that a flight recorder calls: conditions, and ``end`` of triggers.

A condition may block for ever, for example on a lock. So each has its own thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from opscope.base.daemon_thread import OwnThread
from opscope.live.flight.trigger import Trigger

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
