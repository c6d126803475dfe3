"""The steps of a program, recorded or not: how many ended, and from when until when."""

from __future__ import annotations

import time
from typing import Any


class StepsOfRun:
    """Told of each."""

    def __init__(self) -> None:
        self._ended = self._first_ns = self._last_ns = 0

    def step_ended(self) -> None:
        """One has."""
        self._last_ns = time.time_ns()
        self._first_ns = self._first_ns or self._last_ns
        self._ended += 1

    def seen(self) -> dict[str, Any] | None:
        """As metadata of a trace has it; None where there were too few to say anything."""
        if self._ended < 2:
            return None
        return {"ended": self._ended, "first_ns": self._first_ns, "last_ns": self._last_ns}
