"""A step that takes much longer than steps do."""

from __future__ import annotations

from opscope.errors import UsageError
from opscope.flight.quantities import nanoseconds
from opscope.flight.steps import NEVER, StepAlarm
from opscope.flight.triggers.trigger import Trigger, Watched

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
        self._limit_ns = NEVER
        self._watched: Watched | None = None
        self._alarm: StepAlarm | None = None

    def begin(self, watched: Watched) -> None:
        """Count steps from now on."""
        self._limit_ns, self._watched = NEVER, watched
        self._alarm = watched.steps.alarm(self.step_ended)
        self._alarm.at = self._warm_up

    def end(self) -> None:
        """Count no more."""
        self._watched = self._alarm = None

    def step_ended(self, duration_ns: int) -> None:
        """A step was slow, or the limit is to be found anew; on the thread that made the step."""
        watched, alarm = self._watched, self._alarm
        if watched is None or alarm is None:
            return
        ended = watched.steps.count
        if duration_ns > self._limit_ns:
            watched.dump(
                f"step {ended} took {duration_ns / 1e6:,.1f} ms, the limit was "
                f"{self._limit_ns / 1e6:,.1f} ms"
            )
        if ended >= alarm.at:
            self._limit_ns = alarm.above_ns = self._limit(sorted(watched.steps.durations_ns))
            alarm.at = ended + _REFRESHED_EVERY - ended % _REFRESHED_EVERY

    def _limit(self, known: list[int]) -> int:
        """What is slow, by the steps that are remembered: those of the warm-up least of all."""
        if not known:
            return NEVER
        at = min(int(self._quantile * len(known)), len(known) - 1)
        return int(max(known[at] * self._factor, known[len(known) // 2] + self._at_least_ns))
