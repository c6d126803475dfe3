"""What an event costs in this very program: steps with more recorded compared with steps with less.

What a loop of nothing but events says is too little: torch's code and ours are seldom in the caches
when a program comes back to them, and for some events torch makes strings that it makes for nobody
else. So where steps are sampled, the processor time of recorded ones is compared with that of those
beside them. Until there are enough, what one costs with cold caches counts, and half of that more.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

_DEVIATIONS_PER_MAD = 1.4826
_MEDIAN_PER_MEAN = 1.2533
"""How much wider a median's error is than a mean's, and a deviation than the median of them."""
_EXPECTED_WITHIN = 0.5
"""Share of what is expected that it may be wrong by, as a standard deviation."""
_REMEMBERED = 1_000
_FEWEST = 8
"""Comparisons that say anything about how far they scatter."""


@dataclass(frozen=True)
class Reading:
    """At the end of a step.

    Attributes:
        processor_ns: of all threads of the process.
        records: ever recorded.
    """

    processor_ns: int
    records: int

    @classmethod
    def now(cls, records: Callable[[], int]) -> Reading:
        """Of this process."""
        return cls(time.process_time_ns(), records())

    def since(self, other: Reading, steps: int) -> tuple[float, float]:
        """Nanoseconds and records per step."""
        processor_ns, records = self.processor_ns - other.processor_ns, self.records - other.records
        return processor_ns / steps, records / steps


@dataclass(frozen=True)
class EventCostEstimate:
    """What an event costs.

    Attributes:
        event_ns: the most likely.
        error_ns: its standard deviation.
        comparisons: of steps, that it is from; 0 where it is what is expected.
    """

    event_ns: float
    error_ns: float
    comparisons: int

    @property
    def at_most_ns(self) -> float:
        """What to count with: a budget is to be kept also where the estimate is too low."""
        return max(self.event_ns + self.error_ns, 0.0)

    def said_of(self, level: str) -> list[tuple[str, float]]:
        """For the ledger: what it is, and how that is known."""
        event_ns = round(self.event_ns, 1)
        if not self.comparisons:
            return [(f"cost_ns, expected with cold caches: {level}", event_ns)]
        return [
            (f"cost_ns, by comparing steps: {level}", event_ns),
            (f"error of cost_ns: {level}", round(self.error_ns, 1)),
            (f"comparisons of steps: {level}", float(self.comparisons)),
        ]


class EventCost:
    """Of one level."""

    def __init__(self, expected_ns: float) -> None:
        """``expected_ns`` is what counts before there is anything to compare."""
        self._expected_ns = expected_ns
        self._found: deque[float] = deque(maxlen=_REMEMBERED)

    def compare(self, full: tuple[float, float], less: tuple[float, float]) -> None:
        """Two kinds of steps, beside each other: nanoseconds and records per step of each."""
        events = full[1] - less[1]
        if events >= 1:
            self._found.append((full[0] - less[0]) / events)

    def estimate(self) -> EventCostEstimate:
        """What was expected and what was found, each weighted by how sure it is."""
        found = list(self._found)
        expected_ns, doubt_ns = self._expected_ns, self._expected_ns * _EXPECTED_WITHIN
        if len(found) < _FEWEST:
            return EventCostEstimate(expected_ns, doubt_ns, 0)
        middle_ns = statistics.median(found)
        deviation_ns = statistics.median(abs(one - middle_ns) for one in found)
        error_ns = deviation_ns * _DEVIATIONS_PER_MAD * _MEDIAN_PER_MEAN / math.sqrt(len(found))
        # What was expected may be wrong altogether, if what was found is surely not that.
        doubt_ns = max(doubt_ns, abs(middle_ns - expected_ns) - 2 * error_ns)
        weights = 1 / doubt_ns**2, 1 / max(error_ns, 1.0) ** 2
        event_ns = (weights[0] * expected_ns + weights[1] * middle_ns) / sum(weights)
        return EventCostEstimate(event_ns, 1 / math.sqrt(sum(weights)), len(found))
