"""``python -m benchmarks.version_rounds``: how often rounds of two versions are judged wrongly.

As ``opscope diff --run`` does, each version is recorded five times in turns, here in forks of one
process. Half of the pairs are equal, in the others the new version does 5 % more in each step. A
process beside them computes in bursts.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

import opscope
from benchmarks.isolation import in_fork
from benchmarks.workloads import Unit, training
from opscope.analysis.diff.compare import compare
from opscope.analysis.diff.result import TimeVerdict
from opscope.api.diff import open_sides
from opscope.recording.bridge import bridge

_ROUNDS, _STEPS = 5, 500
_MORE = 1.05


def main() -> None:
    name = "python -m benchmarks.version_rounds"
    parser = argparse.ArgumentParser(prog=name, description=__doc__)
    parser.add_argument("--pairs", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)
    bridge.load()
    noise = multiprocessing.get_context("fork").Process(target=_bursts, daemon=True)
    noise.start()
    alarms = found = 0
    try:
        for pair in range(options.pairs):
            work = list(_PROGRAMS)[pair // 2 % len(_PROGRAMS)]
            more = _MORE if pair % 2 else 1.0
            verdict, change, margin = _judged(_PROGRAMS[work], more)
            alarms += more == 1.0 and verdict is not TimeVerdict.NO_DIFFERENCE
            found += more != 1.0 and verdict is TimeVerdict.SLOWER
            print(f"{work:10} x {more:<5} {change:+.1%} ± {margin:.1%} {verdict.value}", flush=True)
    finally:
        noise.kill()
    half = options.pairs // 2
    print(f"{alarms} false alarms in {half}; {found} of {half} found")


def _judged(made: Callable[[float], Unit], more: float) -> tuple[TimeVerdict, float, float]:
    """The step's verdict, change and margin, as shares."""
    with tempfile.TemporaryDirectory() as folder:
        traces: dict[str, list[Path]] = {"old": [], "new": []}
        for number in range(_ROUNDS):
            for side in ("old", "new") if number % 2 else ("new", "old"):
                trace = Path(folder, f"{side}-{number}")
                step = made(more if side == "new" else 1.0)
                in_fork(_record, step, trace)
                traces[side].append(trace)
        found = compare(*open_sides(traces["old"], traces["new"])).step
    if found is None:
        raise SystemExit("A recording has no steps.")
    return found.verdict, found.change_ns / found.a_ns, found.margin_ns / found.a_ns


def _record(step: Unit, trace: Path) -> None:
    with opscope.profile() as profile:
        for _ in range(_STEPS):
            step()
    profile.trace.save(trace)


def _bursts() -> None:
    draw = random.Random(1)
    while True:
        until = time.perf_counter() + draw.uniform(0.05, 1.5)
        while time.perf_counter() < until:
            sum(range(1000))
        time.sleep(draw.uniform(0.05, 1.5))


def _products(more: float) -> Unit:
    network, x, m = nn.Linear(64, 64), torch.randn(64, 64), torch.randn(128, 128)

    def loss() -> torch.Tensor:
        for _ in range(round(40 * more)):
            torch.mm(m, m)
        return network(x).square().mean()

    return training(network, loss)


def _python(more: float) -> Unit:
    network, x = nn.Linear(64, 64), torch.randn(64, 64)

    def loss() -> torch.Tensor:
        sum(i * i for i in range(round(40_000 * more)))
        return network(x).square().mean()

    return training(network, loss)


def _small(more: float) -> Unit:
    network, x = nn.Linear(16, 16), torch.randn(8, 16)

    def loss() -> torch.Tensor:
        y = x
        for _ in range(round(400 * more)):
            y = y * 1.0001
        return network(y).square().mean()

    return training(network, loss)


def _layers(more: float) -> Unit:
    network = nn.Sequential(*(nn.Linear(256, 256) for _ in range(4)))
    x = torch.randn(round(200 * more), 256)
    return training(network, lambda: network(x).square().mean())


_PROGRAMS = {"products": _products, "python": _python, "small": _small, "layers": _layers}


if __name__ == "__main__":
    main()
