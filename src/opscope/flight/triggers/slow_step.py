"""A step that takes much longer than steps do."""

from __future__ import annotations

from collections import deque

from opscope.errors import UsageError
from opscope.flight.quantities import nanoseconds
from opscope.flight.triggers.trigger import Trigger, Watched

_REMEMBERED = 200
_REFRESHED_EVERY = 16


class SlowStep(Trigger):
    """Dumps after a step that took ``factor`` times as long as ``quantile`` of the last 200 did.

    Steps are those of ``profile.step()`` or of the recorder's own ``step()``; in a program that
    calls neither, of the first optimizer that steps.
    """

    name = "slow step"

    def __init__(
        self,
        factor: float = 3.0,
        quantile: float = 0.9,
        warm_up: int = 20,
        at_least: str | float = "50ms",
    ) -> None:
        """Say what is slow.

        Args:
            factor: how many times as long.
            quantile: of the steps before; 0.5 is their median.
            warm_up: steps that are never slow, because they import, compile and choose algorithms.
            at_least: by how much a slow step is longer than the median: where steps take a
                millisecond, a busy machine makes some of them ten times as long.

        Raises:
            UsageError: one of them makes no sense.
        """
        if not (factor > 1 and 0 <= quantile <= 1 and warm_up >= 1):
            raise UsageError(
                f"SlowStep(factor={factor}, quantile={quantile}, warm_up={warm_up}): use a factor "
                "above 1, a quantile from 0 to 1, and at least one step of warm-up."
            )
        self._factor, self._quantile, self._warm_up = factor, quantile, warm_up
        self._at_least_ns = nanoseconds(at_least, "SlowStep(at_least=...)")
        self._durations_ns: deque[int] = deque(maxlen=_REMEMBERED)
        self._ended = 0
        self._limit_ns: float = float("inf")
        self._watched: Watched | None = None

    def begin(self, watched: Watched) -> None:
        """Count steps from now on."""
        self._durations_ns.clear()
        self._ended, self._limit_ns = 1, float("inf")  # of the first nobody knows when it began
        self._watched = watched
        watched.on_step(self.step_ended)

    def end(self) -> None:
        """Count no more."""
        self._watched = None

    def step_ended(self, duration_ns: int) -> None:
        """A step has ended; on the thread that made it."""
        watched = self._watched
        self._ended += 1
        is_slow = self._ended > self._warm_up and duration_ns > self._limit_ns
        if is_slow and watched is not None:
            watched.dump(
                f"step {self._ended} took {duration_ns / 1e6:,.1f} ms, the limit was "
                f"{self._limit_ns / 1e6:,.1f} ms"
            )
        self._durations_ns.append(duration_ns)
        if self._ended == self._warm_up or self._ended % _REFRESHED_EVERY == 0:
            self._limit_ns = self._limit()

    def _limit(self) -> float:
        """What is slow, by the steps that are remembered: those of the warm-up least of all."""
        known = sorted(self._durations_ns)
        at = min(int(self._quantile * len(known)), len(known) - 1)
        return max(known[at] * self._factor, known[len(known) // 2] + self._at_least_ns)
