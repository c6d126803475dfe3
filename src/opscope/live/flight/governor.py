"""The governor: measures the overhead of recording and keeps it below a budget.

The cost is that of the events (how many there were, times what one costs on this machine) and of
the recorder's own threads. Above the budget the governor goes to the next lower of some fixed
levels; where the cost has been well below for a while, it tries the next higher one, and waits
longer each time that was too much.

What a program costs at a level is unknown before it was recorded at it. So a new level is looked at
after 20 ms, then after twice the time, up to once a second: one that costs too much does not last.
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
    ("outermost", frozenset({"operators", "overloads"})),
    ("operators", frozenset({"inner_operators"})),
    ("arguments", frozenset({"shapes", "outputs", "memory"})),
    ("stacks", frozenset({"functions", "own_functions", "stack"})),
)
"""What each level records beside what those before it do."""

EVENT_COST = {
    "nothing": 0.0,
    "steps": 1.0,
    "outermost": 5.0,
    "operators": 1.0,
    "arguments": 2.5,
    "stacks": 1.5,
}
"""Of an event, in costs of a plain span: nodes of backward passes get names that are made for
the flight recorder alone, which takes 2 to 4 µs with cold caches; arguments are copied, frames are
looked up."""


def levels_of(options: RecordingOptions, has_outermost: bool) -> list[tuple[str, int]]:
    """The levels that ``options`` have something of, each with the recorder's bits."""
    levels: list[tuple[str, int]] = []
    kept = {field.name for field in fields(options)} - frozenset().union(*(on for _, on in LEVELS))
    for name, adds in LEVELS:
        kept |= adds
        is_there = any(getattr(options, option) for option in adds)
        if name in ("outermost", "operators"):
            is_there &= options.operators and (has_outermost or name != "outermost")
        if name in ("nothing", "steps") or is_there:
            off = {field.name: False for field in fields(options) if field.name not in kept}
            levels.append((name, 0 if name == "nothing" else native_wants(replace(options, **off))))
    return levels


_IN_PROGRAMS = 4.0
"""Factor between the cost of events in a program and in a loop with cold caches: 1.2 to 4 was
measured, the most in backward passes, where torch makes a string for every node. A budget has to be
kept there too."""
_DEFAULT_SPAN_NS = 160.0
"""With cold caches, where it could not be measured because something else was being recorded."""
_WELL_BELOW = 0.7
"""Share of the budget below which more is tried."""
_FIXED_AT_MOST = 0.5
"""Share of the budget that the recorder's own threads count with. They cost the same whatever is
recorded, so where they take more (the processors are busy, or slow) nothing is won by less."""
_FIRST_RETRY_S, _LAST_RETRY_S = 15.0, 600.0
_FIRST_LOOK_S, _LOOK_S = 0.02, 1.0
"""How long after a change the cost is looked at, and between looks where nothing changes."""
_CREDIT_S = 0.1
"""A burst of events may use up the budget of so much time in advance."""
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class LevelChange:
    """One decision."""

    time_ns: int  # Unix time
    level: str  # what is recorded from then on
    share: float  # of the time, that recording had cost before


@dataclass(frozen=True)
class OwnCost:
    """What was counted so far."""

    # that passed, without what the program's main thread waited for a CPU: what recording
    # costs the program, it has to wait for as well
    time_ns: int
    # that passed. By this the recorder's own threads count: where others have the processors, it is
    # them that these keep waiting
    clock_ns: int
    events: int  # ever recorded
    processor_ns: int  # of the recorder's own threads


class Governor:
    """Chooses the level; called every ``look_after_s``."""

    def __init__(
        self,
        options: RecordingOptions,
        budget: float | None,
        collect: Callable[[int], None],
        span_ns: float | None,
        has_outermost: bool = True,
    ) -> None:
        """Begin with everything that ``options`` ask for.

        Args:
            options: what is recorded at most.
            budget: the share of time that it may cost; None for whatever it does.
            collect: has less or more recorded; takes the recorder's bits.
            span_ns: what a plain span costs on this machine, with cold caches; None if it could
                not be measured.
            has_outermost: whether operators that others run can be left out.
        """
        self.budget = budget
        self._levels = levels_of(options, has_outermost)
        self._collect = collect
        self._span_ns = (span_ns or _DEFAULT_SPAN_NS) * _IN_PROGRAMS
        self._level = len(self._levels) - 1
        self._began = LevelChange(time.time_ns(), self.level, 0.0)
        self._last: OwnCost | None = None
        self._most_credit_ns = (budget or 0.0) * _CREDIT_S * _SECOND_NS
        self._credit_ns = self._most_credit_ns
        self._is_attempt = False  # the last change was to a higher level
        self._retry_s = _FIRST_RETRY_S
        self._retry_at_ns = 0
        self.look_after_s = _FIRST_LOOK_S if budget is not None else _LOOK_S
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
        of_events = events * self._span_ns * EVENT_COST[self.level] / elapsed_ns
        of_threads = (cost.processor_ns - last.processor_ns) / (cost.clock_ns - last.clock_ns)
        self.share = of_events + of_threads
        if self.budget is None:
            return
        counted = of_events + min(of_threads, _FIXED_AT_MOST * self.budget)
        saved_ns = (self.budget - counted) * elapsed_ns
        self._credit_ns = min(self._credit_ns + saved_ns, self._most_credit_ns)
        if self._credit_ns < 0 and self._level > 0:
            if self._is_attempt:
                self._retry_s = min(self._retry_s * 2, _LAST_RETRY_S)
            self._change(self._level - 1, cost.time_ns)
        elif counted <= _WELL_BELOW * self.budget and self._may_rise(cost.time_ns):
            self._change(self._level + 1, cost.time_ns)
        else:
            self.look_after_s = min(2 * self.look_after_s, _LOOK_S)

    def _may_rise(self, now_ns: int) -> bool:
        return self._level < len(self._levels) - 1 and now_ns >= self._retry_at_ns

    def _change(self, level: int, now_ns: int) -> None:
        self._is_attempt = level > self._level
        self._level = level
        self._credit_ns = self._most_credit_ns  # the new level does not owe for the old one
        self.look_after_s = _FIRST_LOOK_S
        self._retry_at_ns = now_ns + int(self._retry_s * _SECOND_NS)
        self.changes.append(LevelChange(time.time_ns(), self.level, self.share))
        self._collect(self._levels[level][1])

    def collected_since(self, from_ns: int) -> list[tuple[int, str]]:
        """From when on what was recorded: at that time, and every change since."""
        if self.budget is None:
            return []
        changes = [self._began, *self.changes]
        first = max((at for at, one in enumerate(changes) if one.time_ns <= from_ns), default=0)
        return [(one.time_ns, one.level) for one in changes[first:]]

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
            ("governor", f"cost_ns of an event: {name}", round(self._span_ns * EVENT_COST[name], 1))
            for name, _ in self._levels
            if name not in ("nothing", "steps")
        ]
        rows += [
            (
                "governor",
                f"{_clock(change.time_ns)}: {change.level} from then on, cost was",
                round(change.share, 5),
            )
            for change in self.changes
        ]
        return rows


def _clock(time_ns: int) -> str:
    return time.strftime("%H:%M:%S UTC", time.gmtime(time_ns / 1e9))
