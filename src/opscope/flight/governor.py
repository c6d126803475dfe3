"""What recording may cost: measured against the time that passes, and kept below a budget.

The cost is that of the events (how many there were, times what one costs in this program, see
``event_cost.py``) and of the recorder's own threads. Where it is above the budget, less is
recorded: first less of every step, then operators that others run of some steps only, then
outermost operators alone, then those of some steps only, then none. Where it has been well below
for a while, more is tried again.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from opscope.flight.collected import Collected
from opscope.flight.event_cost import EventCost
from opscope.flight.levels import EVENT_COST, SAMPLED, levels_of
from opscope.flight.step_samples import MOST_STEPS, StepSample, StepSampler
from opscope.recording.sources import RecordingOptions

_IN_PROGRAMS = 2.5
"""So many times what a loop with cold caches says is about what events cost in programs: 1.2 to 4
times were measured, the most in backward passes, where torch makes a string for every node."""
_DEFAULT_SPAN_NS = 160.0
"""With cold caches, where it could not be measured because something else was being recorded."""
_WELL_BELOW, _SAFELY_BELOW = 0.7, 0.85
"""Where more is tried though it may be too much, and where it is known what it will be."""
_AIM = 0.65
"""Share of the budget that samples of steps aim at; the rest is for how much seconds differ."""
_MUCH_BELOW, _MUCH_ABOVE = 0.55, 0.8
"""Where more steps are sampled, and fewer: no better than that is known what it costs."""
_STEP_COST, _STEP_AT_MOST = 35.0, 0.003
"""Announcing a step, in costs of a span with cold caches: 12 to 30 us were measured, after long
ones; and as a share of the step, because after short ones the caches are not cold."""
_FIXED_AT_MOST = 0.5
"""Share of the budget that the recorder's own threads and announcing steps count with. They cost
the same whatever is recorded, so where they take more (the processors are busy, or slow) nothing is
won by less."""
_MAY_BE_WRONG = 3.0
"""An event was found to cost so many times what is counted with before steps are compared."""
_EVERY_FOR_COMPARING = 2
_ENOUGH_COMPARISONS = 32
_NEWEST = 0.4
"""How much the last second counts where steps are sampled."""
_FIRST_RETRY_S, _LAST_RETRY_S = 15.0, 600.0
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class LevelChange:
    """One decision.

    Attributes:
        time_ns: Unix time.
        level: what is recorded from then on, and of which steps.
        share: of the time, that recording had cost before.
    """

    time_ns: int
    level: str
    share: float


@dataclass(frozen=True)
class OwnCost:
    """What was counted so far.

    Attributes:
        time_ns: that passed, without what the program's main thread waited for a processor: what
            recording costs the program, it has to wait for as well.
        clock_ns: that passed. By this the recorder's own threads count: where others have the
            processors, it is them that these keep waiting.
        events: ever recorded.
        processor_ns: of the recorder's own threads.
    """

    time_ns: int
    clock_ns: int
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
        records: Callable[[], int],
        has_outermost: bool = True,
    ) -> None:
        """Begin with everything that ``options`` ask for.

        Args:
            options: what is recorded at most.
            budget: the share of time that it may cost; None for whatever it does.
            collect: has less or more recorded; takes the recorder's bits.
            span_ns: what a plain span costs on this machine, with cold caches; None if it could
                not be measured.
            records: how many were ever made.
            has_outermost: whether operators that others run can be left out.
        """
        self.budget = budget
        self._levels = levels_of(options, has_outermost)
        self._collect = collect
        self.sampler = StepSampler(self._collect_step, records, self._compared)
        self._step_ns = (span_ns or _DEFAULT_SPAN_NS) * _STEP_COST
        span_ns = (span_ns or _DEFAULT_SPAN_NS) * _IN_PROGRAMS
        self._costs = {name: EventCost(span_ns * EVENT_COST[name]) for name, _ in self._levels}
        # Against steps without operators; the lowest of these levels is compared with no others.
        of_all = [name for name in self._costs if name in SAMPLED]
        self._costs_of_all = {
            name: EventCost(span_ns * EVENT_COST[name]) if place else self._costs[name]
            for place, name in enumerate(of_all)
        }
        self._level = len(self._levels) - 1
        self._last: OwnCost | None = None
        self._retry_s = _FIRST_RETRY_S
        self._retry_at_ns = 0
        self._recorded_ns = [0] * len(self._levels)
        self._steps_before = 0
        self._spent_before_ns = 0
        self._every = 1
        self._is_comparing = False
        self.share = self._extra_share = self._fixed_share = 0.0
        self._is_settled = False
        self.changes: deque[LevelChange] = deque(maxlen=200)
        self.collected = Collected(self.level)

    @property
    def level(self) -> str:
        """The name of what is recorded now."""
        return self._levels[self._level][0]

    @property
    def described(self) -> str:
        """What is recorded now, and of which steps."""
        sample = self.sampler.sample
        return self.level if sample is None else f"{self.level} of {sample}"

    def look(self, cost: OwnCost) -> None:
        """See what recording costs, and choose."""
        last, self._last = self._last, cost
        if last is None or cost.time_ns <= last.time_ns:
            return
        elapsed_ns = cost.time_ns - last.time_ns
        self._count_time(elapsed_ns)
        # A thread that has ended takes its count along.
        events = max(cost.events - last.events, 0)
        steps, sampling_ns = self._counted_since()
        base_ns, extra_ns = self._spent_ns(events, steps)
        threads_ns, clock_ns = cost.processor_ns - last.processor_ns, cost.clock_ns - last.clock_ns
        announcing = min(steps * self._step_ns / elapsed_ns, _STEP_AT_MOST)
        self._take_shares(
            (base_ns + sampling_ns) / elapsed_ns,
            extra_ns / elapsed_ns,
            threads_ns / clock_ns + announcing,
        )
        if self.budget is None:
            return
        is_sampled = self.sampler.sample is not None
        if is_sampled and not steps and not self.sampler.is_full:
            self.sampler.go_on(True)  # a step that takes so long is worth being recorded
        share = self._counted_share(self.budget)
        if share > self.budget and self._level > 0:
            self._retry_s = min(self._retry_s * 2, _LAST_RETRY_S)
            self._record_less(self.budget, steps, elapsed_ns, cost.time_ns)
        elif is_sampled and share > _MUCH_ABOVE * self.budget and self._may_leave_out_steps(steps):
            self._record_less(self.budget, steps, elapsed_ns, cost.time_ns)
        elif self._must_compare(self.budget, steps):
            self._begin_comparing(steps, elapsed_ns, cost.time_ns)
        elif self._is_comparing:
            self._end_comparing(self.budget, steps, elapsed_ns, cost.time_ns)
        elif self._every > 1 and share < _MUCH_BELOW * self.budget and steps:
            self._sample(self._every_for(self.budget), elapsed_ns / steps, cost.time_ns)
        elif self._every == 1 and self._may_rise(cost.time_ns):
            self._record_more(steps, elapsed_ns, cost.time_ns)

    def _may_leave_out_steps(self, steps: int) -> bool:
        """More of them, before less is recorded of every one."""
        return self.level in SAMPLED and steps > 1 and self._every < MOST_STEPS

    def _must_compare(self, budget: float, steps: int) -> bool:
        """Whether all steps may cost more than the budget: what is expected may be far too little.

        Steps with operators are compared with such as have none then, which is also known to the
        governor when no step is left out any more.
        """
        if self.level not in SAMPLED or steps <= 1:
            return False
        is_known = self._costs_of_all[self.level].estimate().comparisons >= _ENOUGH_COMPARISONS
        may_be = self._base_share(budget) + self._every * self._extra_share * _MAY_BE_WRONG
        return not is_known and may_be > budget and (self._every == 1 or self._is_comparing)

    def _begin_comparing(self, steps: int, elapsed_ns: int, now_ns: int) -> None:
        if not self._is_comparing:
            self._is_comparing = True
            self._sample(_EVERY_FOR_COMPARING, elapsed_ns / steps, now_ns)

    def _end_comparing(self, budget: float, steps: int, elapsed_ns: int, now_ns: int) -> None:
        """It is known now; back to all steps, if they cost little."""
        if steps:
            of_all = self._base_share(budget) + self._every * self._extra_share
            every = 1 if of_all <= _SAFELY_BELOW * budget else self._every_for(budget)
            self._is_comparing = False
            self.sampler.forget()
            self._sample(every, elapsed_ns / steps, now_ns)

    def _base_share(self, budget: float) -> float:
        """What recording some steps in full does not change."""
        return self._counted_share(budget) - self._extra_share

    def _spent_ns(self, events: int, steps: int) -> tuple[float, float]:
        """By events: what is spent in any case, and what is for recording some steps in full."""
        full_ns = self._full_cost.estimate().at_most_ns
        if self.sampler.sample is None:
            return 0.0, events * full_ns
        counts = self.sampler.take_counts()
        if not steps:  # nobody knows when the run that goes on will end
            self.sampler.count_anew()
            return 0.0, events * full_ns
        in_any_case, more = counts.records_more()
        rest_ns = self._costs[self._levels[self._rest_level][0]].estimate().at_most_ns
        return in_any_case * rest_ns, more * full_ns

    def _take_shares(self, base: float, extra: float, fixed: float) -> None:
        """A second holds some runs of sampled steps more or less, so several count then."""
        newest = _NEWEST if self.sampler.sample is not None and self._is_settled else 1.0
        self.share += newest * (base + extra + fixed - self.share)
        self._extra_share += newest * (extra - self._extra_share)
        self._fixed_share += newest * (fixed - self._fixed_share)
        self._is_settled = True

    def _counted_share(self, budget: float) -> float:
        return self.share - max(self._fixed_share - _FIXED_AT_MOST * budget, 0.0)

    def _count_time(self, elapsed_ns: int) -> None:
        """Of sampled steps it is the share of time that one in so many is, about."""
        full_ns = elapsed_ns // self._every
        self._recorded_ns[self._level] += full_ns
        self._recorded_ns[self._rest_level] += elapsed_ns - full_ns

    def _counted_since(self) -> tuple[int, int]:
        """Steps of the program, and what sampling them took its threads."""
        sampler = self.sampler
        steps, spent_ns = sampler.steps, sampler.spent_ns
        since = steps - self._steps_before, spent_ns - self._spent_before_ns
        self._steps_before, self._spent_before_ns = steps, spent_ns
        return since

    def _record_less(self, budget: float, steps: int, elapsed_ns: int, now_ns: int) -> None:
        if self._may_leave_out_steps(steps):
            every = max(self._every_for(budget), self._every + 1)
            self._sample(min(every, MOST_STEPS), elapsed_ns / steps, now_ns)
        else:
            self._every, self._is_comparing = 1, False
            self.sampler.begin(None)
            self._change(self._level - 1, now_ns)

    def _record_more(self, steps: int, elapsed_ns: int, now_ns: int) -> None:
        """The next level; operators of a few steps first, where there are steps."""
        self._change(self._level + 1, now_ns)
        if self.level in SAMPLED and steps > 1:
            self._sample(MOST_STEPS, elapsed_ns / steps, now_ns)

    def _every_for(self, budget: float) -> int:
        """Of how many steps one should be recorded, by what the share of them that is costs."""
        left = _AIM * budget - self._base_share(budget)
        if left * MOST_STEPS <= self._every * self._extra_share:
            return MOST_STEPS
        return max(1, math.ceil(self._every * self._extra_share / left))

    def _sample(self, every: int, step_ns: float, now_ns: int) -> None:
        if every == self._every:
            return
        self._every = every
        sample = None
        if every > 1:
            change_ns = self.sampler.change_ns
            sample = StepSample.one_in(every, step_ns, self.budget or 1.0, change_ns)
        self.sampler.begin(sample)
        self._noted(now_ns)

    def _collect_step(self, is_full: bool) -> None:
        name, wants = self._levels[self._level if is_full else self._rest_level]
        self.collected.change(name, self.sampler.steps)
        self._collect(wants)

    @property
    def _rest_level(self) -> int:
        """Of steps that are not recorded in full."""
        if self._is_comparing:
            return [name for name, _ in self._levels].index("steps")
        return self._level - 1 if self.level in SAMPLED else self._level

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
            ("governor", what, value)
            for name, cost in self._costs.items()
            if name not in ("nothing", "steps")
            for what, value in cost.estimate().said_of(name)
        ]
        rows += [
            ("governor", what, value)
            for name, cost in self._costs_of_all.items()
            if cost is not self._costs[name] and cost.estimate().comparisons
            for what, value in cost.estimate().said_of(f"{name}, compared with none")
        ]
        rows += [
            ("governor", f"{_clock(change.time_ns)}: {change.level} from then on, cost was", share)
            for change in self.changes
            for share in (round(change.share, 5),)
        ]
        return rows

    @property
    def _full_cost(self) -> EventCost:
        """Of an event more in steps that are recorded in full than in others."""
        is_of_all = self._is_comparing or self.sampler.sample is None
        return (self._costs_of_all if is_of_all else self._costs).get(
            self.level, self._costs[self.level]
        )

    def _compared(self, full: tuple[float, float], less: tuple[float, float]) -> None:
        self._full_cost.compare(full, less)

    def _may_rise(self, now_ns: int) -> bool:
        budget = self.budget or 0.0
        if self._level == len(self._levels) - 1:
            return False
        return self._counted_share(budget) <= _WELL_BELOW * budget and now_ns >= self._retry_at_ns

    def _change(self, level: int, now_ns: int) -> None:
        self._level = level
        self.sampler.forget()
        name, wants = self._levels[level]
        self._noted(now_ns)
        self.collected.change(name, self.sampler.steps)
        self._collect(wants)

    def _noted(self, now_ns: int) -> None:
        self._retry_at_ns = now_ns + int(self._retry_s * _SECOND_NS)
        self._is_settled = False
        self.changes.append(LevelChange(time.time_ns(), self.described, self.share))


def _clock(time_ns: int) -> str:
    return time.strftime("%H:%M:%S UTC", time.gmtime(time_ns / 1e9))
