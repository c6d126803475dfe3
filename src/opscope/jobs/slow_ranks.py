"""Stragglers: the rank that the others wait for, and why, from own times.

If ranks wait for each other in every step, all steps take equally long. What differs is a rank's
own time, without waits for others. A straggler's own time exceeds that of the others by more than
chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opscope.base.quantity_text import share_text, time_text
from opscope.base.shown_result import ShownResult
from opscope.columns.causes import Cause
from opscope.jobs.outlier_ranks import StandingOut, stand_out
from opscope.jobs.rank_steps import NONE, RankSteps
from opscope.jobs.rollup.places import Excess, ProcessPlaces, find_excess
from opscope.storage.partition import Partition, parts_text
from opscope.timeline.arrays import Amounts

_FEWEST_STEPS = 5
_WORTH_SAYING = 0.1
"""Least additional wait for a CPU that is mentioned, as a share of the main difference."""
_MUCH_WAITING = 0.3
"""Share of a step in collectives on every rank, above waits of equal ranks by chance."""
_ALWAYS = 0.75  # share of slow steps from which a rank is always slow
_COMPUTING = (
    Cause.OPERATOR, Cause.DISPATCH, Cause.PYTHON, Cause.COLLECTION, Cause.IMPORT,
    Cause.COMPILATION, Cause.MEMORY, Cause.PROFILER,
)  # fmt: skip
"""Causes during which a thread uses a CPU."""


@dataclass(frozen=True)
class SlowRank:
    """A rank that the others wait for. Times are nanoseconds of a step, on average.

    Attributes:
        process: the rank's process.
        own_ns: its own time: the step without waits for other ranks.
        others_ns: median own time of the other ranks.
        cause: the cause with the largest difference to the others.
        cause_ns: this difference.
        recurrence: share of its steps in which it is slower than the others usually are.
        waited_ns: how much longer the others wait in collectives than this rank.
        gain_ns: how much shorter a step would be if this rank were as fast as the others.
        step_ns: duration of a step of the job.
        excess: where in the program the difference is; None if unknown.
        delayed_ns: additional wait for a CPU that its additional computation causes.
    """

    process: Partition
    own_ns: float
    others_ns: float
    cause: Cause
    cause_ns: float
    recurrence: float
    waited_ns: float
    gain_ns: float
    step_ns: float
    excess: Excess | None = None
    delayed_ns: float = 0.0

    @property
    def is_always(self) -> bool:
        """Whether it is slow in most steps."""
        return self.recurrence >= _ALWAYS

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            self.process.kind: self.process.number,
            "own_ns": round(self.own_ns),
            "others_ns": round(self.others_ns),
            "cause": self.cause.name.lower(),
            "cause_ns": round(self.cause_ns),
            "delayed_ns": round(self.delayed_ns),
            "recurrence": round(self.recurrence, 4),
            "waited_ns": round(self.waited_ns),
            "gain_ns": round(self.gain_ns),
            "step_ns": round(self.step_ns),
            "where": None if self.excess is None else self.excess.as_dict(),
        }

    def __str__(self) -> str:
        when = "" if self.is_always else f", in {share_text(self.recurrence)} of its steps"
        text = (
            f"{self.process} works {time_text(int(self.own_ns))} a step, the median of the others "
            f"{time_text(int(self.others_ns))}{when}: {self.cause.title} "
            f"{time_text(int(self.cause_ns))}"
        )
        text += f" {self.excess}" if self.excess is not None and str(self.excess) else ""
        if self.delayed_ns >= _WORTH_SAYING * self.cause_ns:
            text += f", and {time_text(int(self.delayed_ns))} of waiting for a CPU"
        text += "."
        if self.waited_ns > 0:
            text += f" The others wait {time_text(int(self.waited_ns))} a step longer."
        if self.gain_ns > 0:
            saved = share_text(self.gain_ns / max(self.step_ns, 1))
            text += f" If it worked like them, steps would be {saved} shorter."
        return text


@dataclass(frozen=True, eq=False)
class SlowRanks(ShownResult):
    """The ranks that others wait for.

    Attributes:
        found: the slow ranks, the one with the largest gain first.
        steps: the compared steps.
        compared: number of ranks with enough steps to be compared.
        notes: what could not be determined and why, one sentence each.
        standing: differences between ranks, and the smallest detectable one; None without ranks.
    """

    found: tuple[SlowRank, ...]
    steps: RankSteps
    compared: int
    notes: tuple[str, ...]
    standing: StandingOut | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        standing = self.standing
        return {
            "compared": self.compared,
            "least_work_ns": None if standing is None else round(standing.least_work_ns),
            "least_delayed_ns": None if standing is None else _rounded(standing.least_delayed_ns),
            "slow": [one.as_dict() for one in self.found],
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        lines = "".join(f"\n  {line}" for line in self.sentences())
        return f"<SlowRanks: {len(self.found)} of {self.compared}{lines}>"

    def sentences(self) -> list[str]:
        """The slow ranks, or that no rank is slow; then ``notes``."""
        slow = map(str, self.found) if self.found else self._none_is_slow()
        return [*slow, *self.notes]

    def _none_is_slow(self) -> list[str]:
        if self.standing is None:
            return []
        rows = _equally_recorded(self.steps, _comparable(self.steps))
        own_ns = self.steps.mean_own_ns[rows]
        apart = share_text(float(own_ns.max() / max(float(own_ns.min()), 1.0) - 1))
        delayed = self.standing.least_delayed_ns
        least = f"{time_text(int(self.standing.least_work_ns))} longer steps"
        if delayed is not None:
            least += f" or {time_text(int(delayed))} longer waits for a CPU"
        return [
            "No rank is slower than the others by more than chance: the median own time of "
            f"{self.compared} ranks is {time_text(int(np.median(own_ns)))} a step, the longest is "
            f"{apart} above the shortest. A rank with {least} would be detected.",
            *self._shared_wait(rows),
        ]

    def _shared_wait(self, rows: list[int]) -> list[str]:
        """A sentence if no rank is slow and all wait: a slow connection delays all equally."""
        waits_ns = (_mean_table(self.steps, row)[Cause.COLLECTIVE] for row in rows)
        walls_ns = (_mean_wall(self.steps, row) for row in rows)
        share = min(wait / max(wall, 1) for wait, wall in zip(waits_ns, walls_ns, strict=True))
        if share < _MUCH_WAITING:
            return []
        return [
            f"Every rank spends {share_text(share)} of a step or more in collectives, and no "
            "rank is the cause: see the transfers with `opscope ranks --collectives`. One slow "
            "network connection delays all ranks equally; find it on the hosts (`ss -ti`)."
        ]


def _rounded(time_ns: float | None) -> int | None:
    return None if time_ns is None else round(time_ns)


def find_slow_ranks(
    steps: RankSteps,
    places: Callable[[Partition], ProcessPlaces] | None = None,
    silent: Sequence[Partition] = (),
) -> SlowRanks:
    """Compare the ranks of a job.

    A rank is slow if its own time exceeds the others' by enough to matter, and by more than the
    scatter of steps and the differences among the others explain. The test allows for the number of
    ranks (:data:`~opscope.jobs.outlier_ranks.FALSE_ALARMS`).

    Args:
        places: times of a process by place, to locate the difference in the program.
        silent: ranks whose recordings have no event.
    """
    with_steps = _comparable(steps)
    enough = _equally_recorded(steps, with_steps)
    left_out = [
        *_left_out(steps, with_steps, silent),
        *_unequally_recorded(steps, [row for row in with_steps if row not in enough]),
    ]
    if len(enough) < 2:
        few = _too_few(steps, len(enough), len(silent))
        return SlowRanks((), steps, len(enough), (few, *left_out))
    means = np.stack([_mean_table(steps, row) for row in enough])
    slow_ranks = []
    standing = stand_out(steps, enough)
    usual = [row for place, row in enumerate(enough) if place not in standing.places] or enough
    for place in standing.places:
        slow = _describe(steps, enough, place, means, usual)
        if slow.own_ns <= slow.others_ns:  # it has less of another cause
            continue
        if places is not None:
            beside = enough[_nearest(means, place)]
            pair = (places(slow.process), places(steps.processes[beside]))
            slow = replace(slow, excess=find_excess(*pair, slow.cause))
        slow_ranks.append(slow)
    slow_ranks.sort(key=lambda one: (-one.gain_ns, -one.own_ns))
    notes = [*_notes(enough, means), *left_out]
    return SlowRanks(tuple(slow_ranks), steps, len(enough), tuple(notes), standing)


def _equally_recorded(steps: RankSteps, rows: list[int]) -> list[int]:
    """Rows with the data that most rows have.

    Waits for a CPU come from kernel counters, which a killed process loses. Its waits then count as
    the call in which they happened.
    """
    waited = [row for row in rows if steps.cause_ns[row, Cause.DESCHEDULED] > 0]
    return waited if 2 * len(waited) >= len(rows) else [row for row in rows if row not in waited]


def _comparable(steps: RankSteps) -> list[int]:
    """Rows with enough steps."""
    return [row for row, own in enumerate(steps.own_ns) if (own != NONE).sum() >= _FEWEST_STEPS]


def _left_out(steps: RankSteps, enough: list[int], silent: Sequence[Partition]) -> list[str]:
    """One sentence per reason for ranks that were not compared."""
    few = [part for row, part in enumerate(steps.processes) if enough and row not in enough]
    return [
        f"{parts_text(parts, 0)} {'has' if len(parts) == 1 else 'have'} {what}, so "
        f"{'it was' if len(parts) == 1 else 'they were'} not compared."
        for parts, what in ((few, f"fewer than {_FEWEST_STEPS} steps"), (silent, "no event"))
        if parts
    ]


def _unequally_recorded(steps: RankSteps, rows: list[int]) -> list[str]:
    """A sentence about ranks that were not compared because their data differs."""
    if not rows:
        return []
    were = f"{parts_text([steps.processes[row] for row in rows], 0)} "
    were += "was not compared" if len(rows) == 1 else "were not compared"
    if steps.cause_ns[rows[0], Cause.DESCHEDULED] > 0:
        return [f"{were}: waits of the others for a CPU are unknown."]
    whose = "its" if len(rows) == 1 else "their"
    return [f"{were}: {whose} waits for a CPU are unknown, as after a kill."]


def _mean_table(steps: RankSteps, row: int) -> Amounts:
    """Mean time of a step of a rank by cause. Shape (causes,)."""
    there = steps.own_ns[row] != NONE
    mean: Amounts = steps.table_ns[row, there].mean(axis=0)
    return mean


def _describe(
    steps: RankSteps, rows: list[int], place: int, means: Amounts, usual: list[int]
) -> SlowRank:
    others = np.delete(means, place, axis=0)
    excess_ns = means[place] - np.median(others, axis=0)
    own = [cause for cause in Cause if cause is not Cause.COLLECTIVE]
    correction = _reassigned_waits(means, place)
    cause = max(own, key=lambda one: float(excess_ns[one] + correction[one]))
    own_ns, others_own = means[:, own].sum(axis=1), np.delete(means[:, own].sum(axis=1), place)
    wall_ns = np.array([_mean_wall(steps, row) for row in rows])
    waited = float(np.median(others[:, Cause.COLLECTIVE])) - float(means[place, Cause.COLLECTIVE])
    return SlowRank(
        process=steps.processes[rows[place]],
        own_ns=float(own_ns[place]),
        others_ns=float(np.median(others_own)),
        cause=cause,
        cause_ns=float(excess_ns[cause]),
        recurrence=_recurrence(steps, rows[place], usual),
        waited_ns=max(waited, 0.0),
        gain_ns=_gain(steps, rows, place, waited),
        step_ns=float(np.median(wall_ns)),
        delayed_ns=-float(correction[Cause.DESCHEDULED]) if cause in _COMPUTING else 0.0,
    )


def _reassigned_waits(means: Amounts, place: int) -> Amounts:
    """Correction of a rank's excess: waits for a CPU count for the computation that caused them.

    A rank that computes longer on a busy machine also waits longer for CPUs. As much as others wait
    for the same computation is no cause of its own. Shape (causes,).
    """
    others = np.delete(means, place, axis=0)
    computing = others[:, _COMPUTING].sum(axis=1)
    usual = float(np.median(others[:, Cause.DESCHEDULED] / np.maximum(computing, 1.0)))
    more = np.maximum(means[place] - np.median(others, axis=0), 0.0)
    moved = np.zeros(len(Cause))
    moved[list(_COMPUTING)] = usual * more[list(_COMPUTING)]
    # At most the rank's own waits.
    moved *= min(1.0, float(more[Cause.DESCHEDULED]) / max(float(moved.sum()), 1.0))
    moved[Cause.DESCHEDULED] = -moved.sum()
    return moved


def _mean_wall(steps: RankSteps, row: int) -> float:
    wall = steps.wall_ns[row]
    return float(wall[wall != NONE].mean())


def _recurrence(steps: RankSteps, row: int, beside: list[int]) -> float:
    """Share of its steps that are longer than nine tenths of the steps of ``beside``.

    These are ranks that are not slow themselves, if there are any.
    """
    own = steps.own_ns[row]
    others = steps.own_ns[[one for one in beside if one != row]]
    usual = float(np.quantile(others[others != NONE], 0.9))
    return float((own[own != NONE] > usual).mean())


def _gain(steps: RankSteps, rows: list[int], place: int, waited: float) -> float:
    """Mean saving per step if this rank were as fast as the next slowest, at most ``waited``."""
    own_ns = steps.own_ns[rows].astype(np.float64)
    others = np.delete(own_ns, place, axis=0).max(axis=0)
    both = (own_ns[place] != NONE) & (others != NONE)
    if not both.any():
        return 0.0
    ahead = np.maximum(own_ns[place, both] - others[both], 0.0)
    return float(np.clip(ahead.mean(), 0.0, max(waited, 0.0)))


def _nearest(means: Amounts, place: int) -> int:
    """Position of the rank whose own time is nearest to the others' median."""
    own = np.delete(means, Cause.COLLECTIVE, axis=1).sum(axis=1)
    middle = float(np.median(np.delete(own, place)))
    distance = np.abs(own - middle)
    distance[place] = np.inf
    return int(np.argmin(distance))


def _notes(rows: list[int], means: Amounts) -> list[str]:
    notes = []
    if len(rows) == 2:
        notes.append("With two ranks, slow means slower than the other one.")
    if not means[:, Cause.COLLECTIVE].any():
        notes.append(
            "No collective was recorded, so it is unknown whether ranks wait for each other."
        )
    return notes


def _too_few(steps: RankSteps, enough: int, silent: int) -> str:
    count = len(steps.processes) + silent
    if count < 2:
        return "There is only one process; a comparison needs two."
    return (
        f"{enough} of {count} processes have {_FEWEST_STEPS} steps or more; a comparison needs "
        "two. Record more steps; a step ends with Optimizer.step or prof.step()."
    )
