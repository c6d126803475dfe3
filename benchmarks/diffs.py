"""How right comparisons are, and how long they take.

Programs that do nothing but train for a moment are recorded many times, each time in a process of
its own: as they are, and with a loop that does nothing in one module, so that their step takes a
few percent longer. Any two recordings, or sets of them, of the same are equal: what is found in
them is an alarm. Between the others the module that is slower has to be found.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

import opscope
from benchmarks.figures import Figure
from benchmarks.isolation import in_fork
from benchmarks.rounds import Rounds
from opscope.analysis.diff.counts import compare_counts
from opscope.analysis.diff.places import recorded_parts
from opscope.analysis.diff.result import Level, TimeVerdict
from opscope.analysis.diff.step_costs import StepCosts, step_costs
from opscope.analysis.diff.times import compare_times

STEPS, _LARGE_STEPS = 60, 1450
SIDES = 5
SLOWER = 0.02
SLOWED = "1"
"""The module that is slowed, by its path."""


class Slowed(torch.nn.Module):
    """A module, and a moment in which nothing is done."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner, self.wait_ns = inner, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        until = time.perf_counter_ns() + self.wait_ns
        while time.perf_counter_ns() < until:
            pass
        return self.inner(x)


def _layers() -> Sequence[torch.nn.Module]:
    sizes = [(128, 256), (256, 128)] * 4
    return [torch.nn.Sequential(torch.nn.Linear(a, b), torch.nn.ReLU()) for a, b in sizes]


def _convolutions() -> Sequence[torch.nn.Module]:
    sizes = [(3, 8), (8, 8), (8, 8), (8, 8), (8, 3)]
    return [
        torch.nn.Sequential(torch.nn.Conv2d(a, b, 3, padding=1), torch.nn.GELU()) for a, b in sizes
    ]


def _attention() -> Sequence[torch.nn.Module]:
    return [
        torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        for _ in range(3)
    ]


@dataclass(frozen=True)
class Program:
    """What is trained: layers one after the other, on batches of a shape."""

    name: str
    layers: Callable[[], Sequence[torch.nn.Module]]
    shape: tuple[int, ...]


PROGRAMS = (
    Program("layers", _layers, (64, 128)),
    Program("convolutions", _convolutions, (4, 3, 16, 16)),
    Program("attention", _attention, (4, 16, 64)),
)


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Alarms of equal recordings, slow modules that were missed, and the time of a comparison."""
    recordings = max(2 * SIDES, round(20 * rounds.share))
    alarms, missed = [], []
    for program in PROGRAMS:
        before = [in_fork(costs, 0, program) for _ in range(3)]
        step_ns = float(np.median(np.concatenate([one.step_ns for one in before])))
        variants = (0, round(SLOWER * step_ns))
        made = rounds.in_forks(program.name, variants, costs, program, count=recordings)
        equal, slowed = made.values()
        alarms.append(100 * share_of_alarms(equal, 100))
        missed.append(100 * share_missed(equal, slowed, 50))
    names = ", ".join(program.name for program in PROGRAMS)
    yield _figure("alarms in equal recordings", names, "%", alarms, 1)
    yield _figure("module that makes a step 2 % longer: missed", names, "%", missed, 5)
    seconds = [in_fork(large_comparison) for _ in range(rounds.few)]
    yield _figure("diff of two traces of 1,000,000 events", "layers", "s", seconds, 5)


def _figure(name: str, workload: str, unit: str, values: list[float], limit: float) -> Figure:
    return Figure(name, workload, unit, values, [], limit=limit)


def costs(wait_ns: int, program: Program) -> StepCosts:
    """What a recording says of its steps."""
    trace = record(program, wait_ns)
    return step_costs(trace, recorded_parts(trace))


def record(program: Program, wait_ns: int, steps: int = STEPS) -> opscope.Trace:
    """A recording of the program, whose second layer waits so long."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(*[Slowed(layer) for layer in program.layers()])
    net[1].wait_ns = wait_ns
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    with opscope.profile(record_shapes=True, with_modules=True, profile_memory=True) as profiled:
        for _ in range(steps):
            optimizer.zero_grad()
            net(torch.randn(program.shape)).square().mean().backward()
            optimizer.step()
    return profiled.trace


def share_of_alarms(recordings: Sequence[StepCosts], pairs: int) -> float:
    """Of pairs drawn from recordings of the same, those in which something is said to differ."""
    draw = random.Random(0)
    return sum(_differ(*draw.sample(recordings, 2)) for _ in range(pairs)) / pairs


def _differ(a: StepCosts, b: StepCosts) -> bool:
    times, counts = compare_times([a], [b]), compare_counts([a], [b], with_bytes=True)
    is_changed = [one.is_changed for one in (times.step, *times.times)]
    is_changed += [one.is_changed for one in counts.memory]
    return any(is_changed) or bool(counts.counts or counts.shapes)


def share_missed(equal: Sequence[StepCosts], slowed: Sequence[StepCosts], trials: int) -> float:
    """Of comparisons of some with some, those whose first slower module is not the slowed one."""
    draw = random.Random(1)
    missed = 0
    for _ in range(trials):
        times = compare_times(draw.sample(equal, SIDES), draw.sample(slowed, SIDES)).times
        slower = [
            one.place.module
            for one in times
            if one.level is Level.MODULE and one.verdict is TimeVerdict.SLOWER
        ]
        missed += not slower or slower[0].split(".")[0] != SLOWED
    return missed / trials


def large_comparison() -> float:
    """Seconds of processor time for two traces of about a million events, from disk."""
    with tempfile.TemporaryDirectory() as folder:
        for side in "ab":
            in_fork(_save_large, f"{folder}/{side}")
        began = time.process_time()
        opscope.diff(f"{folder}/a", f"{folder}/b")
        return time.process_time() - began


def _save_large(folder: str) -> int:
    trace = record(PROGRAMS[0], 0, _LARGE_STEPS)
    trace.save(folder)
    return len(trace.events)
