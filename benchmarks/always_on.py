"""``python -m benchmarks.always_on``: what a flight recorder costs.

Steps with the recorder on and off take turns in one process, and each is compared with those around
it that had it off, so that what else the machine does falls on both. Machines that are shared go
from one speed to another and back: where the steps around one do not agree, it is left out,
whatever it took itself. What a step takes is its thread's processor time; that of the recorder's
own threads is added. The recorder has its default budget; what it has settled for is left as it is
while steps are compared. The interval comes from drawing stretches of neighbouring steps again and
again (block bootstrap).
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import math
import os
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from benchmarks.workloads import Unit, training
from opscope import flight_recorder
from opscope.live.flight.flight import Flight
from opscope.recording.bridge import bridge

FloatColumn = np.ndarray[tuple[int], np.dtype[np.float64]]
BoolColumn = np.ndarray[tuple[int], np.dtype[np.bool_]]

_WARM_STEPS = 20
_UNIT_S = 0.002
"""Steps that are shorter are timed several at once."""
_SETTLE_S = 30.0
"""The governor looks once a second."""
_BESIDE = 2
"""Number of units before and after, with the recorder off, that each unit is compared with."""
_SAME_SPEED = 0.1
"""The slowest of those takes at most so much longer than the fastest: else it counts nothing."""
_TOGETHER = 60
"""Number of neighbouring units that are drawn together, because disturbances last."""
_DRAWS = 1000
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Of mallopt(3)."""


def perceptron() -> Unit:
    """Three layers over 256 rows."""
    model = nn.Sequential(*(nn.Linear(384, 384) for _ in range(3)))
    x = torch.randn(256, 384)
    return training(model, lambda: model(x).square().mean())


def convolutions() -> Unit:
    """Three convolutions of 16 channels."""
    channels = (3, 16, 16, 16)
    model = nn.Sequential(*(nn.Conv2d(a, b, 3) for a, b in itertools.pairwise(channels)))
    x = torch.randn(8, 3, 40, 40)
    return training(model, lambda: model(x).sum())


def attention() -> Unit:
    """One layer of a transformer."""
    layer = nn.TransformerEncoderLayer(192, 4, 768, batch_first=True, dropout=0.0)
    x = torch.randn(12, 96, 192)
    return training(layer, lambda: layer(x).sum())


def elementwise() -> Unit:
    """Formulas of large tensors, without gradients."""
    x = torch.randn(200_000)

    def step() -> None:
        for _ in range(10):
            y = torch.sigmoid(x)
            torch.exp(y).mul(x).add(1.0)

    return step


def vocabulary() -> Unit:
    """An embedding, a projection to all words, a loss."""
    words = torch.randint(4000, (128,))
    model = nn.Sequential(nn.Embedding(4000, 128), nn.Linear(128, 4000))
    loss = nn.CrossEntropyLoss()
    return training(model, lambda: loss(model(words), words))


def launch_bound() -> Unit:
    """Operators of a few numbers: nothing but their overhead."""
    x = torch.ones(4)

    def step() -> None:
        for _ in range(200):
            torch.add(x, x)

    return step


LOOPS = (perceptron, convolutions, attention, elementwise, vocabulary, launch_bound)


def cost_of(make: Callable[[], Unit], seconds: float) -> str:
    """A recorder that has settled below its budget, and that records in every other unit of steps.

    What its threads take goes on in all of them, so that is counted by itself and added.
    """
    torch.manual_seed(0)
    step = make()
    count = max(math.ceil(_UNIT_S / (_processor_ns(step, _WARM_STEPS) / _WARM_STEPS / 1e9)), 1)
    with (
        tempfile.TemporaryDirectory() as folder,
        flight_recorder(directory=folder, triggers=[]) as recorder,
    ):
        flight = recorder._flight
        assert flight is not None
        _settle(step, recorder)
        level = flight.governor.level
        switch = _Switch(flight)
        own_ns, began_s = switch.own_processor_ns(), time.process_time()
        compared = _compare(step, count, recorder.step, switch, seconds)
        own_ns = switch.own_processor_ns() - own_ns
        own_share = own_ns / 1e9 / (time.process_time() - began_s)
        switch.turn(True)
    share, low, high = (bound + own_share for bound in compared.share_and_interval())
    return f"{share:+.2%} ({low:+.2%} to {high:+.2%}), own threads {own_share:.2%}; {level}"


@dataclass(frozen=True)
class Compared:
    """Units of steps with the recorder on and off, in the order in which they ran.

    Attributes:
        taken_ns: what each took. One a unit.
        is_on: whether the recorder was. One a unit.
    """

    taken_ns: FloatColumn
    is_on: BoolColumn

    def share_and_interval(self) -> tuple[float, float, float]:
        """By how much more is taken with it on, and the 95 % interval of that."""
        more = self._beside_others
        is_compared = ~np.isnan(more)
        more, is_on = more[is_compared], self.is_on[is_compared]
        blocks = max(len(more) // _TOGETHER, 1)
        starts = np.arange(blocks) * _TOGETHER
        random_numbers = np.random.default_rng(0)
        drawn = []
        for _ in range(_DRAWS):
            chosen = starts[random_numbers.integers(blocks, size=blocks)]
            places = (chosen[:, None] + np.arange(_TOGETHER)).ravel()
            places = places[places < len(more)]
            drawn.append(_more_when_on(more[places], is_on[places]))
        low, high = np.quantile(drawn, (0.025, 0.975))
        return _more_when_on(more, is_on), float(low), float(high)

    @property
    def _beside_others(self) -> FloatColumn:
        """By how much each took longer than the middle of those around it without the recorder.

        Not a number where those are of different speeds.

        Those without it are compared with each other likewise: some steps take far longer than
        most, whatever is on, as their memory is handed out anew, and so the middle is not the mean.
        """
        places = np.arange(len(self.is_on))
        without = places[~self.is_on]
        at = np.searchsorted(without, places)
        more = np.empty(len(places))
        for place in places:
            beside = without[max(at[place] - _BESIDE, 0) : at[place] + _BESIDE + 1]
            beside = beside[beside != place]
            around = self.taken_ns[beside]
            is_one_speed = around.max() <= around.min() * (1 + _SAME_SPEED)
            more[place] = self.taken_ns[place] / np.median(around) - 1 if is_one_speed else np.nan
        return more


def _more_when_on(more: FloatColumn, is_on: BoolColumn) -> float:
    """The median with the recorder on, less that with it off."""
    return float(np.median(more[is_on]) - np.median(more[~is_on]))


def _compare(step: Unit, count: int, ended: Unit, switch: _Switch, seconds: float) -> Compared:
    """``count`` steps with the recorder off, as many with it on, and so on.

    By chance once or twice with it off: memory that is freed and taken again often comes in turns,
    and every other step is then a little faster, whatever is on.
    """
    taken_ns: list[int] = []
    is_on: list[bool] = []
    until = time.monotonic() + seconds
    chance = random.Random(0)
    switch.turn(False)
    while time.monotonic() < until:
        for _ in range(chance.randint(1, 2)):
            taken_ns.append(_processor_ns(step, count))
            is_on.append(False)
        switch.turn(True)
        taken_ns.append(_processor_ns(step, count, ended))
        is_on.append(True)
        switch.turn(False)
    return Compared(np.array(taken_ns, np.float64), np.array(is_on))


def _processor_ns(step: Unit, count: int, ended: Unit | None = None) -> int:
    """Of the calling thread, which does all that a step takes."""
    began_ns = time.thread_time_ns()
    for _ in range(count):
        step()
        if ended is not None:
            ended()
    return time.thread_time_ns() - began_ns


def _settle(step: Unit, recorder: flight_recorder) -> None:
    until = time.monotonic() + _SETTLE_S
    while time.monotonic() < until:
        step()
        recorder.step()


class _Switch:
    """Takes a flight recorder out of the program, and puts it back.

    Its governor makes no choice from now on.
    """

    def __init__(self, flight: Flight) -> None:
        self._flight = flight
        self._collects = flight.windows._collects
        flight.keeper._cost_at_s = math.inf

    def turn(self, is_on: bool) -> None:
        """Record, or nothing at all; nor is it told of optimizers then."""
        steps = self._flight.steps
        if steps._handle is not None:
            steps._handle.remove()
            steps._handle = None
        if is_on:
            steps._handle = register_optimizer_step_post_hook(steps.optimizer_stepped)
        self._flight.windows.collect(self._collects if is_on else 0)

    def own_processor_ns(self) -> int:
        """Of the recorder's threads."""
        return self._flight.keeper.own_processor_ns + self._flight.watch.processor_ns


def _keep_memory() -> None:
    """Have malloc give nothing back: where it does, one step in ten takes twice as long."""
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_MMAP_THRESHOLD, 1 << 30)
    libc.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.always_on", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="of comparing, for each loop")
    options = parser.parse_args()
    torch.set_num_threads(1)
    _keep_memory()
    bridge.load()
    print(f"load {os.getloadavg()[0]:.1f} of {os.cpu_count()} processors, {time.strftime('%F')}")
    for loop in LOOPS:
        print(f"{loop.__name__:14} {cost_of(loop, options.seconds)}", flush=True)


if __name__ == "__main__":
    main()
