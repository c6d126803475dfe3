"""The steps of a program, recorded or not: how many ended, and how long they and all between took.

The clock stands while opscope does something at the end of a step: recordings that it starts, stops
and writes are no time of the program. Steps beside which another process of opscope's makes a trace
do not count: the two contend for processors.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


class StepsOfRun:
    """Counts steps from the end of the first, but those that ``contends`` is true of."""

    def __init__(self, contends: Callable[[], bool] = lambda: False) -> None:
        self._contends, self._has_contended = contends, False
        self._ended = self._passed_ns = 0
        self._since_ns = 0

    def step_ended(self, then: Callable[[], None]) -> None:
        """One has; ``then`` is what opscope does about it."""
        now_ns = time.monotonic_ns()
        if not self._ended:
            self._ended = 1
        elif not self._has_contended:
            self._ended += 1
            self._passed_ns += now_ns - self._since_ns
        try:
            then()
        finally:
            self._has_contended = self._contends()
            self._since_ns = time.monotonic_ns()

    def seen(self) -> dict[str, Any] | None:
        """As metadata of a trace has it; None where there were too few to say anything."""
        return None if self._ended < 2 else {"ended": self._ended, "passed_ns": self._passed_ns}
