"""Trigger: a step that takes much longer than the others."""

from __future__ import annotations

from opscope import _native
from opscope.base.quantity_text import nanoseconds
from opscope.errors import UsageError
from opscope.live.flight.trigger import Trigger, Watched
from opscope.torch_api.steps import NEVER

_REFRESHED_EVERY = 16
_WAIT_ERROR_INVERSE = 10
"""Inverse of the relative error of a step's wait: the kernel counts only at context switches."""


class SlowStep(Trigger):
    """Dumps after a step that took ``factor`` times as long as ``quantile`` of the last 200.

    A step ends with ``profile.step()`` or the recorder's ``step()``; in a program that calls
    neither, with ``step()`` of the first optimizer.

    Waits of the step's thread for a CPU are not included, unless the kernel does not count them.
    Time in which the process was stopped (Ctrl-Z) is included.
    """

    name = "slow step"

    def __init__(
        self,
        factor: float = 3.0,
        quantile: float = 0.9,
        warm_up: int = 20,
        at_least: str | float = "50ms",
    ) -> None:
        """Set the limit.

        Args:
            factor: ratio to the quantile.
            quantile: quantile of the previous steps; 0.5 is their median.
            warm_up: number of first steps that make no dump, because they import, compile and
                choose algorithms.
            at_least: minimum difference to the median: on a busy machine, some steps of 1 ms take
                ten times as long.

        Raises:
            UsageError: an argument is invalid.
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
        self._alarm: _native.StepAlarm | None = None

    def begin(self, watched: Watched) -> None:
        """Start counting steps."""
        self._limit_ns, self._watched = NEVER, watched
        self._alarm = watched.steps.alarm(self.step_ended)
        self._alarm.at = self._warm_up

    def end(self) -> None:
        """Stop counting steps."""
        self._watched = self._alarm = None

    def step_ended(self, duration_ns: int) -> None:
        """Request a dump for a slow step, and update the limit; on the thread of the step."""
        watched, alarm = self._watched, self._alarm
        if watched is None or alarm is None:
            return
        ended, waited_ns = watched.steps.count, watched.steps.waited_ns
        wait_ns = waited_ns or 0
        if duration_ns - wait_ns - wait_ns // _WAIT_ERROR_INVERSE > self._limit_ns:
            watched.dump(
                f"step {ended} took {duration_ns / 1e6:,.1f} ms{_wait_text(waited_ns)}, "
                f"the limit was {self._limit_ns / 1e6:,.1f} ms"
            )
        if ended >= alarm.at:
            self._limit_ns = self._limit(sorted(watched.steps.own_durations_ns))
            alarm.own_above_ns = self._limit_ns
            alarm.at = ended + _REFRESHED_EVERY - ended % _REFRESHED_EVERY

    def _limit(self, times_ns: list[int]) -> int:
        """Limit in nanoseconds, from the sorted durations of the last steps."""
        if not times_ns:
            return NEVER
        rank = min(int(self._quantile * len(times_ns)), len(times_ns) - 1)
        median_ns = times_ns[len(times_ns) // 2]
        return int(max(times_ns[rank] * self._factor, median_ns + self._at_least_ns))


def _wait_text(waited_ns: int | None) -> str:
    if waited_ns is None:
        return " (its waits for a CPU are unknown)"
    return f" ({waited_ns / 1e6:,.1f} ms of them waiting for a CPU)"
