"""What recording may cost: measured against the time that passes, and kept below a budget.

The cost is that of the events (how many there were, times what one costs on this machine) and of
the recorder's own threads. Where it is above the budget, less is recorded; where it has been well
below for a while, more is tried again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from opscope.recording.sources import RecordingOptions, native_wants

LEVELS = (
    ("nothing", frozenset[str]()),
    ("steps", frozenset({"annotations", "modules", "gc_pauses", "asyncio"})),
    ("operators", frozenset({"operators", "overloads"})),
    ("arguments", frozenset({"shapes", "outputs", "memory"})),
    ("stacks", frozenset({"functions", "own_functions", "stack"})),
)
"""What each level records beside what those before it do."""

_EVENT_COST = {"nothing": 0.0, "steps": 1.0, "operators": 1.0, "arguments": 2.5, "stacks": 1.5}
"""Of an event, in costs of a plain span: arguments are copied, frames are looked up."""
_DEFAULT_SPAN_NS = 150.0
"""Where it could not be measured because something else was being recorded."""
_WELL_BELOW = 0.7
_FIRST_RETRY_S, _LAST_RETRY_S = 15.0, 600.0
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class LevelChange:
    """One decision.

    Attributes:
        time_ns: Unix time.
        level: what is recorded from then on.
        share: of the time, that recording had cost before.
    """

    time_ns: int
    level: str
    share: float


@dataclass(frozen=True)
class OwnCost:
    """What was counted so far.

    Attributes:
        time_ns: of the monotonic clock.
        events: ever recorded.
        processor_ns: of the recorder's own threads.
    """

    time_ns: int
    events: int
    processor_ns: int


class Governor:
    """Chooses the level; asked once a second."""

    def __init__(
        self,
        options: RecordingOptions,
        budget: float | None,
        collect: Callable[[int], None],
        span_ns: float | None,
    ) -> None:
        """Begin with everything that ``options`` ask for.

        Args:
            options: what is recorded at most.
            budget: the share of time that it may cost; None for whatever it does.
            collect: has less or more recorded; takes the recorder's bits.
            span_ns: what a plain span costs on this machine; None if it could not be measured.
        """
        self.budget = budget
        self._levels = _levels_of(options)
        self._collect = collect
        self._span_ns = span_ns or _DEFAULT_SPAN_NS
        self._level = len(self._levels) - 1
        self._last: OwnCost | None = None
        self._retry_s = _FIRST_RETRY_S
        self._retry_at_ns = 0
        self._recorded_ns = [0] * len(self._levels)
        self.share = 0.0
        self.changes: deque[LevelChange] = deque(maxlen=200)

    @property
    def level(self) -> str:
        """The name of what is recorded now."""
        return self._levels[self._level][0]

    def look(self, cost: OwnCost) -> None:
        """See what recording costs, and choose."""
        last, self._last = self._last, cost
        if last is None or cost.time_ns <= last.time_ns:
            return
        elapsed_ns = cost.time_ns - last.time_ns
        self._recorded_ns[self._level] += elapsed_ns
        # A thread that has ended takes its count along.
        events = max(cost.events - last.events, 0)
        spent_ns = events * self._event_ns() + (cost.processor_ns - last.processor_ns)
        self.share = spent_ns / elapsed_ns
        if self.budget is None:
            return
        if self.share > self.budget and self._level > 0:
            self._retry_s = min(self._retry_s * 2, _LAST_RETRY_S)
            self._change(self._level - 1, cost.time_ns)
        elif self._may_rise(cost.time_ns):
            self._change(self._level + 1, cost.time_ns)

    def recorded_shares(self) -> dict[str, float]:
        """For each level, the share of the time that at least it was recorded."""
        total = sum(self._recorded_ns)
        if not total:
            return {}
        return {
            name: sum(self._recorded_ns[place:]) / total
            for place, (name, _) in enumerate(self._levels)
            if name != "nothing"
        }

    def rows(self) -> list[tuple[str, str, float]]:
        """Of the ledger: what was recorded how long, and every change with its time."""
        if self.budget is None:
            return []
        rows = [("governor", "budget", self.budget)]
        rows += [
            ("governor", f"share of time recorded: {name}", round(share, 4))
            for name, share in self.recorded_shares().items()
        ]
        rows += [
            ("governor", f"{_clock(change.time_ns)}: {change.level} from then on, cost was", share)
            for change in self.changes
            for share in (round(change.share, 5),)
        ]
        return rows

    def _may_rise(self, now_ns: int) -> bool:
        if self._level == len(self._levels) - 1 or self.share > self.budget_to_rise:
            return False
        return now_ns >= self._retry_at_ns

    @property
    def budget_to_rise(self) -> float:
        """Below this more may be tried."""
        return _WELL_BELOW * (self.budget or 0.0)

    def _change(self, level: int, now_ns: int) -> None:
        self._level = level
        name, wants = self._levels[level]
        self._retry_at_ns = now_ns + int(self._retry_s * _SECOND_NS)
        self.changes.append(LevelChange(time.time_ns(), name, self.share))
        self._collect(wants)

    def _event_ns(self) -> float:
        return self._span_ns * _EVENT_COST[self.level]


def _levels_of(options: RecordingOptions) -> list[tuple[str, int]]:
    """The levels that ``options`` have something of, each with the recorder's bits."""
    levels: list[tuple[str, int]] = []
    rest = {field.name for field in fields(options)} - frozenset().union(*(on for _, on in LEVELS))
    kept = set(rest)
    for name, adds in LEVELS:
        kept |= adds
        if name in ("nothing", "steps") or any(getattr(options, option) for option in adds):
            off = {field.name: False for field in fields(options) if field.name not in kept}
            levels.append((name, 0 if name == "nothing" else native_wants(replace(options, **off))))
    return levels


def _clock(time_ns: int) -> str:
    return time.strftime("%H:%M:%S UTC", time.gmtime(time_ns / 1e9))
