"""Whether a program is as fast after stop() as it was before start()."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

from benchmarks.figures import Figure
from benchmarks.isolation import in_fork
from benchmarks.rounds import Rounds
from benchmarks.sessions import new_profile, time_units, time_unprofiled
from benchmarks.workloads import TRAINING, Workload


@dataclass(frozen=True)
class StepTimes:
    """CPU nanoseconds per training step: twice before start(), once after stop()."""

    before: float
    before_again: float
    after: float


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Step time after against before, and how much two measurements of the same differ anyway."""
    workload = TRAINING.scaled(rounds.share)
    variants = {name: _variant(workload, name) for name in ("opscope", "torch")}
    steps = rounds.interleave("step time after stop()", variants)
    ours, theirs = steps["opscope"], steps["torch"]
    again = [abs(step.before_again / step.before - 1) for step in [*ours, *theirs]]
    noise = max(median(again), 0.01)
    left_by_torch = median(step.after / step.before_again for step in theirs)
    yield Figure(
        "step time after stop()",
        workload.name,
        "ns/step",
        [step.after for step in ours],
        [step.before_again for step in ours],
        compared_with="the same before start()",
        target=1 + noise,
        note=f"two measurements before start() differ by {noise:.1%}; the ratio of torch.profiler "
        f"is {left_by_torch:.3f}",
    )


def _variant(workload: Workload, profiler: str) -> Callable[[], StepTimes]:
    return lambda: in_fork(_step_times, workload, profiler)


def _step_times(workload: Workload, profiler: str) -> StepTimes:
    unit = workload.build()
    before = time_unprofiled(unit, workload.units)
    before_again = time_units(unit, workload.units)
    with new_profile(profiler, "all"):
        for _ in range(workload.units // 5):
            unit()
    return StepTimes(before, before_again, time_units(unit, workload.units))
