"""A garbage collection that takes long."""

from __future__ import annotations

import gc
import time

from opscope.base.quantity_text import nanoseconds
from opscope.live.flight.triggers.trigger import Trigger, Watched


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
        """Be told of collections."""
        self._watched, self._began_ns = watched, 0
        gc.callbacks.append(self._collecting)

    def end(self) -> None:
        """Be told no more."""
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
