"""Keeps windows from opening and closing in the middle of a deed, for those who want exact counts.

Deeds pass together, a window's opening or closing alone. What happens inside a deed (a hook, a
finalizer, a signal handler) passes with it: taking a lock there could wait for itself. An actor
whose ``depth`` begins at 1 never asks, and is counted from below and above.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from torture.history import Actor


class _Entered:
    """One level of an actor's depth. Whoever interrupts it in a way that it is never left, sets the
    depth right; it is closed with the garbage at any time, and must not count then."""

    def __init__(self, actor: Actor) -> None:
        self.actor, self.was_left_behind = actor, False

    def leave(self) -> None:
        """Leave it."""
        if not self.was_left_behind:
            self.actor.depth -= 1


class Gate:
    """One alone or any number together; who wants to be alone comes first."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._together = 0
        self._waiting = 0
        self._alone = False

    @contextmanager
    def together(self, actor: Actor) -> Iterator[None]:
        """Pass with other deeds."""
        asks = not actor.depth
        actor.depth += 1
        if asks:
            with self._changed:
                self._changed.wait_for(lambda: not (self._alone or self._waiting))
                self._together += 1
        entered = _Entered(actor)
        try:
            yield
        except GeneratorExit:
            entered.was_left_behind = True
            raise
        finally:
            if asks:
                with self._changed:
                    self._together -= 1
                    self._changed.notify_all()
            entered.leave()

    @contextmanager
    def alone(self, actor: Actor) -> Iterator[None]:
        """Pass while nobody else does; inside a deed, at once."""
        asks = not actor.depth
        actor.depth += 1
        if asks:
            with self._changed:
                self._waiting += 1
                self._changed.wait_for(lambda: not (self._alone or self._together))
                self._waiting -= 1
                self._alone = True
        entered = _Entered(actor)
        try:
            yield
        except GeneratorExit:
            entered.was_left_behind = True
            raise
        finally:
            if asks:
                with self._changed:
                    self._alone = False
                    self._changed.notify_all()
            entered.leave()
