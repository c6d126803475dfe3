"""Steps that the program announces by ``profile.step()``, for whoever else wants to know."""

from __future__ import annotations

from collections.abc import Callable

_listeners: tuple[Callable[[], object], ...] = ()


def announce_step() -> None:
    """A step of the program has ended. Listeners raise nothing."""
    for listener in _listeners:
        listener()


def listen_to_steps(listener: Callable[[], object]) -> None:
    """Call ``listener`` at every announced step, on the thread that makes it."""
    global _listeners
    _listeners = (*_listeners, listener)


def forget_listener(listener: Callable[[], object]) -> None:
    """Call it no more."""
    global _listeners
    _listeners = tuple(one for one in _listeners if one != listener)
