"""The steps of a program, recorded or not: how many ended, and how long they and all between took.

The clock stands while opscope does something at the end of a step: recordings that it starts, stops
and writes are no time of the program.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


class StepsOfRun:
    """Counts steps from the end of the first."""

    def __init__(self) -> None:
        self._ended = self._passed_ns = 0
        self._since_ns = 0

    def step_ended(self, then: Callable[[], None]) -> None:
        """One has; ``then`` is what opscope does about it."""
        if self._ended:
            self._passed_ns += time.monotonic_ns() - self._since_ns
        self._ended += 1
        try:
            then()
        finally:
            self._since_ns = time.monotonic_ns()

    def seen(self) -> dict[str, Any] | None:
        """As metadata of a trace has it; None where there were too few to say anything."""
        return None if self._ended < 2 else {"ended": self._ended, "passed_ns": self._passed_ns}
