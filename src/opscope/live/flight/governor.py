"""The governor: measures the overhead of recording and keeps it below a budget.

The overhead is the number of events times the cost of one on this machine, plus the recorder's own
threads. Above the budget, the governor goes to the next lower level. If the overhead stays well
below the budget, it tries the next higher level, and waits longer each time that level costs too
much.

The overhead of a level is unknown before it is tried. So a new level is measured after 20 ms, then
at doubling intervals up to one second, and a level that costs too much ends soon.
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
"""Levels, each with the options that it adds to the previous ones."""

EVENT_COST = {
    "nothing": 0.0,
    "steps": 1.0,
    "outermost": 5.0,
    "operators": 1.0,
    "arguments": 2.5,
    "stacks": 1.5,
}
"""Cost of an event, relative to a plain span. Names of backward nodes take torch 2 to 4 µs with
cold caches, and exist only for the recorder; arguments are copied, frames are looked up."""


def levels_of(options: RecordingOptions, has_outermost: bool) -> list[tuple[str, int]]:
    """Levels that ``options`` include, each with the native recorder's bits."""
    levels: list[tuple[str, int]] = []
    kept = {field.name for field in fields(options)} - frozenset().union(*(on for _, on in LEVELS))
    for name, added in LEVELS:
        kept |= added
        is_included = any(getattr(options, option) for option in added)
        if name in ("outermost", "operators"):
            is_included &= options.operators and (has_outermost or name != "outermost")
        if name in ("nothing", "steps") or is_included:
            off = {field.name: False for field in fields(options) if field.name not in kept}
            levels.append((name, 0 if name == "nothing" else native_wants(replace(options, **off))))
    return levels


_IN_PROGRAMS = 4.0
"""Cost of events in a program, relative to a loop with cold caches. Measured: 1.2 to 4; 4 in
backward passes, where torch makes a string for every node. The budget must hold there too."""
_DEFAULT_SPAN_NS = 160.0
"""Cost of a span with cold caches, if another recording prevented the measurement."""
_WELL_BELOW = 0.7
"""Share of the budget below which the next higher level is tried."""
_MOST_OF_THREADS = 0.5
"""Largest share of the budget that counts for the recorder's threads. They cost the same at every
level, so if they cost more (on busy or slow CPUs), a lower level does not help."""
_FIRST_RETRY_S, _LAST_RETRY_S = 15.0, 600.0
_FIRST_LOOK_S, _LOOK_S = 0.02, 1.0
"""Time from a change to the first measurement, and longest time between measurements."""
_CREDIT_S = 0.1
"""A burst of events may use up the budget of this time."""
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class LevelChange:
    """One change of the level."""

    time_ns: int  # Unix time
    level: str  # the new level
    share: float  # share of the time that recording took before


@dataclass(frozen=True)
class OwnCost:
    """Counters of the recorder's cost so far."""

    time_ns: int  # elapsed time without the main thread's waits for a CPU; base of event costs
    clock_ns: int  # elapsed time; base of the threads' cost, which on busy CPUs delays others
    events: int  # recorded so far
    processor_ns: int  # CPU time of the recorder's own threads


class Governor:
    """Chooses the level; call :meth:`look` every ``look_after_s``."""

    def __init__(
        self,
        options: RecordingOptions,
        budget: float | None,
        collect: Callable[[int], None],
        span_ns: float | None,
        has_outermost: bool = True,
    ) -> None:
        """Begin at the highest level, which records all of ``options``.

        Args:
            budget: largest share of the time; None: no limit.
            collect: changes what is recorded; takes the native recorder's bits.
            span_ns: cost of a plain span on this machine, with cold caches; None if not measured.
            has_outermost: whether inner operators can be left out.
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
        self._is_attempt = False  # whether the last change was to a higher level
        self._retry_s = _FIRST_RETRY_S
        self._retry_at_ns = 0
        self.look_after_s = _FIRST_LOOK_S if budget is not None else _LOOK_S
        self._recorded_ns = [0] * len(self._levels)
        self.share = 0.0
        self.changes: deque[LevelChange] = deque(maxlen=200)

    @property
    def level(self) -> str:
        """Name of the current level."""
        return self._levels[self._level][0]

    def look(self, cost: OwnCost) -> None:
        """Update the measured cost, and choose the level."""
        last, self._last = self._last, cost
        if last is None or cost.time_ns <= last.time_ns:
            return
        elapsed_ns = cost.time_ns - last.time_ns
        self._recorded_ns[self._level] += elapsed_ns
        events = max(cost.events - last.events, 0)  # an ended thread takes its count with it
        of_events = events * self._span_ns * EVENT_COST[self.level] / elapsed_ns
        of_threads = (cost.processor_ns - last.processor_ns) / (cost.clock_ns - last.clock_ns)
        self.share = of_events + of_threads
        if self.budget is None:
            return
        counted = of_events + min(of_threads, _MOST_OF_THREADS * self.budget)
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
        self._credit_ns = self._most_credit_ns  # the old level's debt does not count
        self.look_after_s = _FIRST_LOOK_S
        self._retry_at_ns = now_ns + int(self._retry_s * _SECOND_NS)
        self.changes.append(LevelChange(time.time_ns(), self.level, self.share))
        self._collect(self._levels[level][1])

    def collected_since(self, from_ns: int) -> list[tuple[int, str]]:
        """Level at ``from_ns``, and each change since then: time and level."""
        if self.budget is None:
            return []
        changes = [self._began, *self.changes]
        first = max((row for row, one in enumerate(changes) if one.time_ns <= from_ns), default=0)
        return [(one.time_ns, one.level) for one in changes[first:]]

    def recorded_shares(self) -> dict[str, float]:
        """For each level, the share of the time at this level or a higher one."""
        total = sum(self._recorded_ns)
        if not total:
            return {}
        return {
            name: sum(self._recorded_ns[place:]) / total
            for place, (name, _) in enumerate(self._levels)
            if name != "nothing"
        }

    def rows(self) -> list[tuple[str, str, float]]:
        """Rows of the ledger: share of the time at each level, and each change with its time."""
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
