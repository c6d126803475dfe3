"""``python -m benchmarks.version_rounds``: how often rounds of two versions are judged wrongly.

As ``opscope diff --run`` does, both versions of a pair run five times, in turns of a fraction of a
second, here in forks of processes that have imported torch. Half of the pairs are equal, in the
others the new version does 5 % more in each step. Another process makes noise beside them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import opscope
from benchmarks.workloads import Unit, training
from opscope.analysis.diff.result import TimeVerdict
from opscope.analysis.diff.step_costs import StepCosts, step_costs
from opscope.analysis.diff.times import compare_times
from opscope.readers.recorded_run import take_turns
from opscope.recording.bridge import bridge
from opscope.timeline.stopped_time import without_stops

_ROUNDS = 5
_MORE = 1.05
_SERVERS = 6
"""Processes to fork from: each has other addresses and hashes. Random ones are compared."""


def main() -> None:
    name = "python -m benchmarks.version_rounds"
    parser = argparse.ArgumentParser(prog=name, description=__doc__)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--noise", choices=_NOISES, default="bursts")
    parser.add_argument("--apart", action="store_true", help="one run after the other")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    context = multiprocessing.get_context("spawn")
    noise = context.Process(target=_NOISES[options.noise], args=[options.seed], daemon=True)
    alarms = found = 0
    with _servers(context) as servers:
        noise.start()
        for pair in range(options.pairs):
            begun = time.monotonic()
            work = list(_PROGRAMS)[pair // 2 % len(_PROGRAMS)]
            more = _MORE if pair % 2 else 1.0
            sides: tuple[list[StepCosts], list[StepCosts]] = ([], [])
            for _ in range(_ROUNDS):
                job = (work, options.steps, draw.randrange(1 << 20))
                forks = [
                    _Fork(server, (*job, how_much))
                    for server, how_much in zip(draw.sample(servers, 2), (1.0, more), strict=True)
                ]
                for group in [[one] for one in forks] if options.apart else [forks]:
                    for one in group:
                        one.begin()
                    take_turns(group)
                for side, one in zip(sides, forks, strict=True):
                    side.append(one.costs())
            step = compare_times(*sides).step
            alarms += more == 1.0 and step.verdict is not TimeVerdict.NO_DIFFERENCE
            found += more != 1.0 and step.verdict is TimeVerdict.SLOWER
            print(
                f"{work:8} x {more:<4} {step.relative:+.1%} ± {step.margin_ns / step.a_ns:.1%} "
                f"p {step.p_value:.4f} {step.verdict.value} ({time.monotonic() - begun:.0f} s, "
                f"load {os.getloadavg()[0]:.0f})",
                flush=True,
            )
    half = options.pairs // 2
    print(f"{alarms} false alarms in {half}; {found} of {half} found")


class _Fork:
    """A run of a program in a fork of a server."""

    def __init__(self, server: Connection, job: tuple[Any, ...]) -> None:
        self._server, self._job = server, job
        self._stops: list[tuple[int, int]] = []
        self.is_running = True

    def begin(self) -> None:
        self._server.send(self._job)
        self._group = self._server.recv()

    def wait(self, timeout_s: float | None = None) -> None:
        if self._server.poll(timeout_s):
            self._server.recv()
            self.is_running = False

    def stop(self) -> None:
        if self.is_running:
            os.killpg(self._group, signal.SIGSTOP)
            self._stops.append((time.time_ns(), 0))

    def resume(self) -> None:
        self._stops[-1] = (self._stops[-1][0], time.time_ns())
        os.killpg(self._group, signal.SIGCONT)

    def costs(self) -> StepCosts:
        self._server.send(self._stops)
        costs: StepCosts = self._server.recv()
        self._server.recv()  # its server has waited for it
        return costs


@contextmanager
def _servers(context: multiprocessing.context.SpawnContext) -> Iterator[list[Connection]]:
    pipes = [context.Pipe() for _ in range(_SERVERS)]
    processes = [context.Process(target=_serve, args=[pipe], daemon=True) for _, pipe in pipes]
    for process in processes:
        process.start()
    servers = [pipe for pipe, _ in pipes]
    for server in servers:
        server.recv()
    yield servers
    for process in processes:
        process.kill()


def _serve(pipe: Connection) -> None:
    torch.set_num_threads(1)
    bridge.load()
    with opscope.profile() as profile:  # imports what the forks need
        _products(1.0)()
    step_costs(profile.trace, frozenset())
    pipe.send("ready")
    while True:
        job = pipe.recv()
        if not (child := os.fork()):
            os.setpgid(0, 0)
            pipe.send(os.getpid())
            pipe.send(_recorded(pipe, *job))
            os._exit(0)
        os.waitpid(child, 0)
        pipe.send("done")


def _recorded(pipe: Connection, work: str, steps: int, seed: int, more: float) -> StepCosts:
    torch.manual_seed(seed)
    elsewhere = bytearray(random.Random().randrange(1 << 20))  # in the heap of every run
    step = _PROGRAMS[work](more)
    with opscope.profile() as profile:
        for _ in range(steps):
            step()
    pipe.send("ended")
    costs = step_costs(without_stops(profile.trace, pipe.recv()), frozenset())
    del elsewhere
    return costs


def _between(draw: random.Random) -> float:
    return draw.uniform(0.05, 1.5)


def _bursts(seed: int) -> None:
    """Computation in bursts."""
    draw = random.Random(seed)
    while True:
        until = time.perf_counter() + _between(draw)
        while time.perf_counter() < until:
            sum(range(1000))
        time.sleep(_between(draw))


def _copies(seed: int) -> None:
    """Bursts of passes over memory."""
    draw, much = random.Random(seed), np.ones(4_000_000)
    while True:
        until = time.perf_counter() + _between(draw)
        while time.perf_counter() < until:
            much += 1
        time.sleep(_between(draw))


def _builds(seed: int) -> None:
    """Builds of C++."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "a.cpp")
        source.write_text(
            "#include <regex>\nbool f(char* a) { return regex_match(a, std::regex(a)); }\n"
        )
        while True:
            subprocess.run(["c++", "-O2", "-c", source, "-o", f"{folder}/a.o"], check=False)
            time.sleep(_between(draw))


_NOISES: dict[str, Callable[[int], None]] = {
    "bursts": _bursts,
    "copies": _copies,
    "builds": _builds,
}


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
