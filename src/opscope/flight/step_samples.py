"""Which of the program's steps are recorded in full, where all of them would cost too much."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from opscope.flight.event_cost import Reading
from opscope.flight.steps import NEVER, ProgramSteps, StepAlarm

MOST_STEPS = 64
"""One of so many is the least that is recorded before less is recorded of every step."""
_CHANGE_NS = 50_000.0
"""What going from one to the other takes the thread that steps, until that was measured: where
steps use the caches for themselves, Python's functions for it have to be fetched again."""
_EVICTS = 1.5
"""It empties the caches for the program in turn, so it costs so many times what it takes."""
_SHARE_FOR_CHANGES = 0.1
"""Of the budget."""
_REMEMBERED = 50
_LONGEST_BESIDE = 2
"""Steps beside recorded ones that are compared with them: so many times as many, on either side."""
_ENOUGH, _SOME = 64, 8
"""Of more comparisons there is one in so many runs: they cost as well."""

Compared = Callable[[tuple[float, float], tuple[float, float]], None]
"""Takes what a step took, and the records it made: of recorded steps, and of those beside them."""


@dataclass(frozen=True)
class StepSample:
    """Which steps.

    Attributes:
        recorded: so many, one after the other,
        of: out of so many on average.
    """

    recorded: int
    of: int

    @classmethod
    def one_in(cls, every: int, step_ns: float, budget: float, change_ns: float) -> StepSample:
        """A share of the steps, in runs so long that beginning and ending them costs little."""
        least = 2 * change_ns / (_SHARE_FOR_CHANGES * budget * max(step_ns, 1.0))
        recorded = max(1, math.ceil(least / every))
        return cls(recorded, recorded * every)

    def __str__(self) -> str:
        return f"{self.recorded} of {self.of} steps"


@dataclass(frozen=True)
class StepCounts:
    """Of runs of steps that are over, while steps are sampled.

    Attributes:
        full_steps: that were recorded in full.
        full_records: in those.
        other_steps: the rest.
        other_records: in those.
    """

    full_steps: int = 0
    full_records: int = 0
    other_steps: int = 0
    other_records: int = 0

    def with_run(self, is_full: bool, steps: int, records: int) -> StepCounts:
        """And those of one more."""
        if is_full:
            return replace(
                self,
                full_steps=self.full_steps + steps,
                full_records=self.full_records + records,
            )
        return replace(
            self,
            other_steps=self.other_steps + steps,
            other_records=self.other_records + records,
        )

    def records_more(self) -> tuple[float, float]:
        """Those that would be there in any case, and those of full recording alone."""
        in_any = self.other_records / self.other_steps if self.other_steps else 0.0
        in_any_case = min(in_any * self.full_steps, self.full_records)
        return in_any_case + self.other_records, self.full_records - in_any_case


class StepSampler:
    """Has more or less recorded at the end of some steps, on the program's thread."""

    def __init__(
        self, collect: Callable[[bool], None], records: Callable[[], int], compared: Compared
    ) -> None:
        """``collect`` everything that is recorded of sampled steps, or only the rest.

        Args:
            collect: has it recorded, or not.
            records: how many were ever made.
            compared: told of recorded steps and those beside them.
        """
        self._collect = collect
        self._random = random.Random()  # a program may count on the one that all share
        self._ends_at = self._run_steps = 0
        self._program: ProgramSteps | None = None
        self._alarm: StepAlarm | None = None
        self._comparison = _Comparison(compared)
        self._records = records
        self._began: Reading | None = None
        self._counts = StepCounts()
        self.sample: StepSample | None = None
        self.is_full = True
        self._changes_ns: deque[int] = deque(maxlen=_REMEMBERED)
        self.spent_ns = 0

    @property
    def change_ns(self) -> float:
        """What going from more to less recorded costs the program, or back; as measured lately."""
        taken_ns = [*self._changes_ns]
        return (statistics.median(taken_ns) if taken_ns else _CHANGE_NS) * _EVICTS

    def listen(self, program: ProgramSteps) -> None:
        """To the steps of the program."""
        self._program = program
        self._alarm = program.alarm(self._step_ended)

    @property
    def steps(self) -> int:
        """Of the program, so far."""
        return self._program.count if self._program is not None else 0

    def begin(self, sample: StepSample | None) -> None:
        """From the next step on; None for all steps, at once."""
        self.sample = sample
        if sample is None:
            self.forget()
            if not self.is_full:
                self.go_on(True)
        elif self._alarm is not None:
            self._alarm.at = min(self._alarm.at, max(self._ends_at, self.steps + 1))

    def forget(self) -> None:
        """What is recorded in full is something else from now on: compare nothing with before."""
        self._began = None
        self._counts = StepCounts()
        self._comparison.forget()

    def _step_ended(self, _: int) -> None:
        """One at whose end something is to be done; another run of steps may begin."""
        began_ns = time.thread_time_ns()
        was_full = self.is_full
        self._sample(self.sample, self._alarm, self.steps)
        took_ns = time.thread_time_ns() - began_ns
        if self.is_full is not was_full:
            self._changes_ns.append(took_ns)
        self.spent_ns += int(took_ns * _EVICTS)

    def _sample(self, sample: StepSample | None, alarm: StepAlarm | None, steps: int) -> None:
        if alarm is None:
            return
        if sample is None:
            self._ends_at, alarm.at = 0, NEVER
            return
        left = self._ends_at - steps
        if left > 0:
            if self._comparison.wants_reading(left):
                self._comparison.read(left, Reading.now(self._records))
        else:
            left = self._begin_run(sample)
            self._ends_at = steps + left
        alarm.at = self._ends_at - self._comparison.next_reading(left)

    def _begin_run(self, sample: StepSample) -> int:
        """Of so many steps, after the one that has ended."""
        now = Reading.now(self._records)
        if self._began is not None:
            records = now.records - self._began.records
            self._counts = self._counts.with_run(self.is_full, self._run_steps, records)
        self._comparison.run_ended(now)
        if self.is_full:
            # Random, because programs do something else at every so-manieth step.
            rest = sample.of - sample.recorded
            steps = self._random.randint(1, max(2 * rest - 1, 1))
        else:
            steps = sample.recorded
        self.go_on(not self.is_full)
        self._began, self._run_steps = Reading.now(self._records), steps
        beside = _LONGEST_BESIDE * sample.recorded
        self._comparison.run_begins(self.is_full, steps, beside, self._began)
        return steps

    def take_counts(self) -> StepCounts:
        """Of runs that ended since it was last asked."""
        counts, self._counts = self._counts, StepCounts()
        return counts

    def count_anew(self) -> None:
        """What the run that goes on has recorded so far counts as known."""
        if self._began is not None:
            self._began = Reading.now(self._records)

    def go_on(self, is_full: bool) -> None:
        """Have everything recorded, or only what is of all steps."""
        self.is_full = is_full
        self._comparison.forget()
        self._collect(is_full)


class _Comparison:
    """Of a run of recorded steps with the steps just before and just after it.

    Whoever changes what is recorded says so (``forget``); what was begun is no comparison then.
    """

    def __init__(self, compared: Compared) -> None:
        self._compared = compared
        self._reads_at: tuple[int, int] = (0, 0)
        self._began: Reading | None = None
        self._steps = 0
        self._is_full = False
        self._before: tuple[float, float] | None = None
        self._full: tuple[float, float] | None = None
        self._is_changing = False
        self._runs = 0
        self._is_single = False
        self._wants_after = self._wants_before = True

    def run_begins(self, is_full: bool, steps: int, most_beside: int, now: Reading) -> None:
        """After the change; ``steps`` are to follow."""
        self._is_changing = False
        self._is_full, self._began = is_full, now
        if is_full:
            self._reads_at, self._steps = (0, 0), steps
            return
        self._runs += 1
        self._wants_after = self._wants_before
        self._wants_before = self._runs < _ENOUGH or self._runs % _SOME == 0
        self._steps, self._is_single = max(min(steps // 2, most_beside), 1), steps == 1
        # So many are left when those after the last run are over, and when those before the next
        # begin.
        after = steps - self._steps if self._wants_after else 0
        before = self._steps if self._wants_before else 0
        self._reads_at = (0, 0) if self._is_single else (after, before)

    def wants_reading(self, left: int) -> bool:
        """At the end of a step that is not the last of the run."""
        return not self._is_full and left in self._reads_at

    def next_reading(self, left: int) -> int:
        """How many steps are left in the run when it wants one next, or when the run is over."""
        return 0 if self._is_full else max((at for at in self._reads_at if at < left), default=0)

    def read(self, left: int, now: Reading) -> None:
        """What it wanted."""
        if left == self._reads_at[0]:
            self._after(now)
        if left == self._reads_at[1]:
            self._began = now

    def run_ended(self, now: Reading) -> None:
        """Before the change."""
        self._is_changing = True
        if self._began is None:
            return
        if self._is_full:
            self._full = now.since(self._began, self._steps)
        elif not self._is_single:
            self._before = now.since(self._began, self._steps) if self._wants_before else None
        elif self._wants_after:
            self._after(now)
            self._before = None

    def forget(self) -> None:
        """Something else is recorded from now on; part of a run is none."""
        if not self._is_changing:
            self._began = self._before = self._full = None

    def _after(self, now: Reading) -> None:
        if self._began is None or self._full is None:
            return
        after, before = now.since(self._began, self._steps), self._before or (0.0, 0.0)
        count = 1 if self._before is None else 2
        less = (after[0] + before[0]) / count, (after[1] + before[1]) / count
        full, self._full, self._before = self._full, None, None
        self._compared(full, less)
