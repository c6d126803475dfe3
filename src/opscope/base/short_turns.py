"""Has Python pass the GIL on sooner while a thread of opscope's own works.

A thread that wants the GIL waits for as long as ``sys.getswitchinterval()`` says, 5 ms unless the
program chose otherwise, before it asks for it; who has it then lets go of it at the next loop or
call. That long opscope's own threads would hold up one of the program's, wherever in Python they
are. So while they work the interval is short, and afterwards it is the program's again.
"""

from __future__ import annotations

import os
import sys
import threading

_TURN_US = 200


class _ShortTurns:
    """A context manager; any number of threads may be in it at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._programs_us = 0

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._programs_us = _interval_us()
                if self._programs_us > _TURN_US:
                    _set_interval_us(_TURN_US)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._give_back()

    def _give_back(self) -> None:
        """Unless the program has chosen another one meanwhile."""
        if _interval_us() == _TURN_US:
            _set_interval_us(self._programs_us)

    def after_fork_in_child(self) -> None:
        """The threads that were in it are not there."""
        self._lock = threading.Lock()
        if self._inside:
            self._inside = 0
            self._give_back()


def _interval_us() -> int:
    """As Python keeps it; in seconds it is not what was set."""
    return round(sys.getswitchinterval() * 1e6)


def _set_interval_us(interval_us: int) -> None:
    """Python cuts off what is below a microsecond: given what it says itself, it keeps one less."""
    sys.setswitchinterval((interval_us + 0.5) / 1e6)


short_turns = _ShortTurns()
"""For ``with``."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=short_turns.after_fork_in_child)
