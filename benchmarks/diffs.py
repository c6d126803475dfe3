"""``python -m benchmarks.diffs``: how right comparisons are, and how long they take.

Programs that do nothing but train for a moment are recorded many times, each time in a process of
its own: as they are, and with a loop that does nothing in one module, so that their step takes a
few percent longer. Any two recordings, or sets of them, of the same are equal: what is found in
them is an alarm. Between the others the module that is slower has to be found.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
from opscope.analysis.diff.times import TimesCompared, compare_times

STEPS = 60
SIDES = 5
_LARGE_STEPS = 1450
_OPTIONS: dict[str, Any] = {
    "record_shapes": True, "with_modules": True, "profile_memory": True,
}  # fmt: skip


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
    """What is trained.

    Attributes:
        name: what it is called.
        layers: one after the other; the second is the one that is slowed.
        shape: of a batch.
    """

    name: str
    layers: Callable[[], Sequence[torch.nn.Module]]
    shape: tuple[int, ...]


PROGRAMS = (
    Program("layers", _layers, (64, 128)),
    Program("convolutions", _convolutions, (4, 3, 16, 16)),
    Program("attention", _attention, (4, 16, 64)),
)
SLOWED = "1"


def record(program: Program, wait_ns: int, steps: int = STEPS) -> opscope.Trace:
    """A recording of the program, whose second layer waits so long."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(*[Slowed(layer) for layer in program.layers()])
    net[1].wait_ns = wait_ns
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    with opscope.profile(**_OPTIONS) as profiled:
        for _ in range(steps):
            optimizer.zero_grad()
            net(torch.randn(program.shape)).square().mean().backward()
            optimizer.step()
    return profiled.trace


def costs(program: Program, wait_ns: int) -> StepCosts:
    """What a recording says of its steps."""
    trace = record(program, wait_ns)
    return step_costs(trace, recorded_parts(trace))


def step_ns(program: Program) -> float:
    """What a step takes now, while it is recorded."""
    found = [in_fork(costs, program, 0) for _ in range(3)]
    return float(np.median(np.concatenate([one.step_ns for one in found])))


@dataclass(frozen=True)
class Recorded:
    """Recordings of one program, made in turns: as it is, and slowed by a share of its step."""

    program: Program
    equal: list[StepCosts]
    slowed: list[StepCosts]


def record_all(program: Program, equal: int, slowed: int, share: float) -> Recorded:
    """So many of each."""
    wait_ns = round(share * step_ns(program))
    found = Recorded(program, [], [])
    for number in range(max(equal, slowed)):
        if number < equal:
            found.equal.append(in_fork(costs, program, 0))
        if number < slowed:
            found.slowed.append(in_fork(costs, program, wait_ns))
    return found


def alarms(recorded: Recorded, pairs: int, side: int, seed: int) -> list[str]:
    """In pairs of equal sides, drawn from the recordings: what was said to have changed."""
    draw = random.Random(seed)
    found = []
    for _ in range(pairs):
        drawn = draw.sample(recorded.equal, 2 * side)
        found += _alarm(drawn[:side], drawn[side:])
    return found


def resampled_alarms(recorded: Recorded, pairs: int, seed: int) -> list[str]:
    """The same of pairs whose blocks of steps are drawn from one recording each."""
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(pairs):
        one = recorded.equal[draw.integers(len(recorded.equal))]
        sides = [_resampled(one, draw.integers(one.blocks, size=one.blocks)) for _ in range(2)]
        found += _alarm([sides[0]], [sides[1]])
    return found


def _resampled(one: StepCosts, blocks: np.ndarray[Any, Any]) -> StepCosts:
    return replace(one, time_ns=one.time_ns[:, blocks], whole_ns=one.whole_ns[blocks])


def _alarm(a: Sequence[StepCosts], b: Sequence[StepCosts]) -> list[str]:
    """What is said to have changed, in one entry; none where nothing is."""
    times, counts = compare_times(a, b), compare_counts(a, b, with_bytes=True)
    said = [one.name for one in (times.step, *times.times) if one.is_changed]
    said += [one.name for one in counts.counts] + [one.name for one in counts.shapes]
    said += [one.device for one in counts.memory if one.is_changed]
    return [", ".join(said)] if said else []


@dataclass(frozen=True)
class Detection:
    """Of so many comparisons, in how many something was found, and in how many the right module."""

    trials: int
    found: int
    right: int
    others: int


def detections(recorded: Recorded, trials: int, side: int, seed: int) -> Detection:
    """Compare slowed recordings with equal ones."""
    draw = random.Random(seed)
    found = right = others = 0
    for _ in range(trials):
        times = compare_times(draw.sample(recorded.equal, side), draw.sample(recorded.slowed, side))
        slower = _slower_modules(times)
        found += bool(slower)
        right += bool(slower) and slower[0].split(".")[0] == SLOWED
        others += any(name.split(".")[0] != SLOWED for name in slower)
    return Detection(trials, found, right, others)


def _slower_modules(times: TimesCompared) -> list[str]:
    return [
        one.place.module
        for one in times.times
        if one.level is Level.MODULE and one.verdict is TimeVerdict.SLOWER
    ]


def large_comparison() -> float:
    """Seconds of processor time for two traces of about a million events, from disk."""
    import tempfile

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


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Alarms of equal recordings, slow modules that were missed, and the time of a comparison."""
    recordings = max(2 * SIDES, round(20 * rounds.share))
    wrong, missed = [], []
    for program in PROGRAMS:
        recorded = record_all(program, recordings, recordings, 0.02)
        wrong.append(100 * len(alarms(recorded, 100, 1, seed=0)) / 100)
        found = detections(recorded, 50, SIDES, seed=1)
        missed.append(100 * (1 - found.right / found.trials))
    names = ", ".join(program.name for program in PROGRAMS)
    yield _figure("alarms in equal recordings", names, "%", wrong, 1)
    yield _figure("module that makes a step 2 % longer: missed", names, "%", missed, 5)
    seconds = [in_fork(large_comparison) for _ in range(rounds.few)]
    yield _figure("diff of two traces of 1,000,000 events", "layers", "s", seconds, 5)


def _figure(name: str, workload: str, unit: str, values: list[float], limit: float) -> Figure:
    return Figure(name, workload, unit, values, [], limit=limit)


def main() -> None:
    options = _parse()
    torch.set_num_threads(1)
    costs(PROGRAMS[0], 0)  # what is imported once, and the bridge
    noise = [_noise() for _ in range(options.noise)]
    try:
        for program in PROGRAMS:
            _report(program, options)
    finally:
        for process in noise:
            process.kill()
            process.wait()


def _report(program: Program, options: argparse.Namespace) -> None:
    recorded = record_all(program, options.recordings, options.recordings, options.slower / 100)
    took = np.array([one.step_ns.mean() for one in recorded.equal])
    print(
        f"{program.name}: {options.recordings} recordings, step {took.mean() / 1e6:.2f} ms, ",
        end="",
    )
    print(f"which differ by {took.std(ddof=1) / took.mean():.1%}")
    for side, pairs in ((1, options.pairs), (SIDES, options.pairs // 4)):
        wrong = alarms(recorded, pairs, side, seed=side)
        print(f"  equal, {side} a side: {len(wrong)} alarms of {pairs}: {wrong[:5]}", flush=True)
    wrong = resampled_alarms(recorded, options.pairs, seed=7)
    print(
        f"  equal, blocks of steps resampled: {len(wrong)} alarms of {options.pairs}: {wrong[:5]}"
    )
    for side in (1, 3, SIDES):
        print(f"  {options.slower} % slower, {side} a side: ", end="")
        print(detections(recorded, options.pairs // 8, side, seed=side), flush=True)


def _noise() -> subprocess.Popen[Any]:
    """Another program that computes and reads memory, now and then."""
    source = (
        "import time, numpy\na = numpy.ones(4_000_000)\n"
        "while True:\n end = time.time() + 0.2\n while time.time() < end: a.sum()\n time.sleep(0.2)"
    )
    return subprocess.Popen([sys.executable, "-c", source])


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.diffs", description=__doc__)
    parser.add_argument("--recordings", type=int, default=60, help="of each kind and program")
    parser.add_argument("--pairs", type=int, default=350, help="that are compared, of each program")
    parser.add_argument("--slower", type=float, default=2.0, help="percent of the step")
    parser.add_argument("--noise", type=int, default=0, help="programs that run beside it")
    return parser.parse_args()


if __name__ == "__main__":
    main()
