"""``python -m benchmarks.always_on``: what a flight recorder costs, and how it holds a program up.

Processor time of blocks of steps with the recorder on and off, in turn in one process, so that what
else the machine does falls on both. A block's neighbours are its comparison, and what is said is
the median over blocks, with its interval. The recorder has its default budget; what it has settled
for is left as it is while blocks are compared (``--budget none``: everything is recorded). Holding
up is told from waiting for a processor by what the kernel counts of that.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

import opscope
from opscope import flight_recorder
from opscope.flight.flight import Flight
from opscope.recording import bridge

Step = Callable[[], None]

_WARM_STEPS = 20
_BLOCK_S = 0.3
_SETTLE_S = 15.0
"""The governor looks once a second, and learns from each what an event costs here."""
_NORMAL_95 = 1.96


def perceptron() -> Step:
    """Three layers over 256 rows."""
    model = nn.Sequential(*(nn.Linear(384, 384) for _ in range(3)))
    return _training(model, torch.randn(256, 384), lambda out: out.square().mean())


def convolutions() -> Step:
    """Three convolutions of 16 channels."""
    channels = (3, 16, 16, 16)
    layers = [nn.Conv2d(a, b, 3) for a, b in itertools.pairwise(channels)]
    return _training(nn.Sequential(*layers), torch.randn(8, 3, 40, 40), lambda out: out.sum())


def attention() -> Step:
    """One layer of a transformer."""
    layer = nn.TransformerEncoderLayer(192, 4, 768, batch_first=True, dropout=0.0)
    return _training(layer, torch.randn(12, 96, 192), lambda out: out.sum())


def elementwise() -> Step:
    """Formulas of large tensors, without gradients."""
    x = torch.randn(200_000)

    def step() -> None:
        for _ in range(10):
            y = torch.sigmoid(x)
            torch.exp(y).mul(x).add(1.0)

    return step


def vocabulary() -> Step:
    """An embedding, a projection to all words, a loss."""
    words = torch.randint(4000, (128,))
    model = nn.Sequential(nn.Embedding(4000, 128), nn.Linear(128, 4000))
    loss = nn.CrossEntropyLoss()
    return _training(model, words, lambda out: loss(out, words))


def launch_bound() -> Step:
    """Operators of a few numbers: nothing but their overhead."""
    x = torch.ones(4)

    def step() -> None:
        for _ in range(200):
            torch.add(x, x)

    return step


LOOPS = (perceptron, convolutions, attention, elementwise, vocabulary)


def _training(
    model: nn.Module, inputs: torch.Tensor, loss: Callable[[torch.Tensor], torch.Tensor]
) -> Step:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        loss(model(inputs)).backward()
        optimizer.step()

    return step


@dataclass(frozen=True)
class Cost:
    """What a recorder adds to a step's processor time.

    Attributes:
        share: the median over blocks.
        low: of its 95 % interval.
        high: likewise.
        operator_us: what an operator takes on average, with all that is between.
        own: the share of the recorder's own threads.
        said: what the recorder itself took all of it to be.
        level: what it recorded.
    """

    share: float
    low: float
    high: float
    operator_us: float
    own: float
    said: float
    level: str

    def __str__(self) -> str:
        return (
            f"{self.share:+.2%} ({self.low:+.2%} to {self.high:+.2%}), "
            f"operators of {self.operator_us:.0f} µs; own threads {self.own:.2%}, "
            f"said {self.said:.2%}; {self.level}"
        )


def cost_of(make: Callable[[], Step], blocks: int, budget: float | None) -> Cost:
    """A recorder that has settled below its budget, and that records in every other block.

    What its threads take goes on in all blocks, so that is counted by itself and added.
    """
    torch.manual_seed(0)
    step = make()
    steps = max(int(_BLOCK_S / _seconds_per_step(step, _WARM_STEPS)), 5)
    shares = []
    with tempfile.TemporaryDirectory() as folder:
        recorder = flight_recorder(directory=folder, triggers=[], budget=budget)
        with recorder:
            flight = recorder._flight
            assert flight is not None
            _settle(step, recorder)
            said, level = flight.governor.share, flight.governor.described
            switch = _Switch(flight)
            own_ns, began_s = switch.own_processor_ns(), time.process_time()
            for _ in range(blocks):
                seconds = {True: 0.0, False: 0.0}
                first, second = random.sample((True, False), 2)
                for is_on in (first, second, second, first):
                    switch.turn(is_on)
                    for _ in range(3):
                        step()
                    seconds[is_on] += _seconds_per_step(
                        step, steps, recorder.step if is_on else None
                    )
                shares.append(seconds[True] / seconds[False] - 1)
            own_ns = switch.own_processor_ns() - own_ns
            own_share = own_ns / 1e9 / (time.process_time() - began_s)
            switch.turn(True)
    per_operator = _seconds_per_step(step, steps) / _operators_in(step)
    interval = _middle_of([share + own_share for share in shares])
    return Cost(*interval, per_operator * 1e6, own_share, said, level)


def _settle(step: Step, recorder: flight_recorder) -> None:
    until = time.monotonic() + _SETTLE_S
    while time.monotonic() < until:
        step()
        recorder.step()


class _Switch:
    """Takes what a flight recorder records out of the program, and puts it back.

    Its governor goes on sampling steps, but makes no other choice from now on.
    """

    def __init__(self, flight: Flight) -> None:
        self._flight = flight
        self._is_on = True
        flight.governor._collect = self._collect
        flight.keeper._cost_at_s = math.inf

    def turn(self, is_on: bool) -> None:
        """Record, or nothing at all."""
        self._is_on = is_on
        self._flight.governor._collect_step(self._flight.governor.sampler.is_full)

    def own_processor_ns(self) -> int:
        """Of the recorder's threads."""
        return self._flight.keeper.own_processor_ns + self._flight.watch.processor_ns

    def _collect(self, wants: int) -> None:
        self._flight.windows.collect(wants if self._is_on else 0)


def _middle_of(shares: list[float]) -> tuple[float, float, float]:
    """The median, and its 95 % interval, which asks for no distribution: of order statistics.

    Not the mean: another program that has the machine's caches for a moment is worth more in it
    than what a recorder costs.
    """
    ordered, count = sorted(shares), len(shares)
    below = max(int(count / 2 - _NORMAL_95 * count**0.5 / 2), 0)
    return statistics.median(ordered), ordered[below], ordered[count - 1 - below]


def _seconds_per_step(step: Step, steps: int, ended: Step | None = None) -> float:
    """Of a processor, on all threads of the process."""
    began = time.process_time()
    for _ in range(steps):
        step()
        if ended is not None:
            ended()
    return (time.process_time() - began) / steps


def _operators_in(step: Step) -> int:
    with opscope.profile() as recorded:
        step()
    return len(recorded.trace.events)


@dataclass(frozen=True)
class HeldUp:
    """How long another thread was held up while something was done, in milliseconds.

    Attributes:
        times: of each time that it was done, the longest stretch.
    """

    times: list[float]

    def __str__(self) -> str:
        ordered = sorted(self.times)
        at = [ordered[min(int(share * len(ordered)), len(ordered) - 1)] for share in (0.5, 0.99)]
        return f"{len(ordered)} times: median {at[0]:.2f} ms, p99 {at[1]:.2f} ms"


class Ticking:
    """A thread of Python's that does next to nothing, and notices when it cannot."""

    def __init__(self) -> None:
        self._is_over = False
        self._longest_ns = 0
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Ticking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join()

    def longest_ms(self, action: Callable[[], object]) -> float:
        """The longest stretch in which it neither ran nor waited for a processor meanwhile."""
        self._longest_ns = 0
        action()
        time.sleep(0.003)  # a stretch is noticed at its end
        return self._longest_ns / 1e6

    def _tick(self) -> None:
        file = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
        last_ns, ran_ns = time.perf_counter_ns(), self._ran_or_waited_ns(file)
        while not self._is_over:
            time.sleep(0)
            now_ns, now_ran_ns = time.perf_counter_ns(), self._ran_or_waited_ns(file)
            held_ns = (now_ns - last_ns) - (now_ran_ns - ran_ns)
            self._longest_ns = max(self._longest_ns, held_ns)
            last_ns, ran_ns = now_ns, now_ran_ns

    @staticmethod
    def _ran_or_waited_ns(file: int) -> int:
        ran, waited, _ = os.pread(file, 100, 0).split()
        return int(ran) + int(waited)


def held_up(rounds: int) -> dict[str, HeldUp]:
    """A dump, a start and a stop, and nothing at all, beside a thread that ticks."""
    found: dict[str, list[float]] = {"nothing": [], "start": [], "dump": [], "stop": []}
    step = perceptron()
    with tempfile.TemporaryDirectory() as folder, Ticking() as ticking:
        for _ in range(rounds):
            recorder = flight_recorder(directory=folder, triggers=[], max_disk="50GiB")
            found["nothing"].append(ticking.longest_ms(lambda: time.sleep(0.002)))
            found["start"].append(ticking.longest_ms(recorder.start))
            step()
            found["dump"].append(ticking.longest_ms(recorder.dump))
            recorder._flight.dumps.wait(60)  # type: ignore[union-attr]
            found["stop"].append(ticking.longest_ms(recorder.stop))
    return {what: HeldUp(times) for what, times in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.always_on", description=__doc__)
    parser.add_argument("--blocks", type=int, default=30, help="of each loop")
    parser.add_argument("--rounds", type=int, default=200, help="of starting, dumping, stopping")
    parser.add_argument("--only", choices=("loops", "budget", "pauses"))
    parser.add_argument("--budget", default="0.01", help="a share of the time, or none")
    options = parser.parse_args()
    torch.set_num_threads(1)
    bridge.load()
    chosen = {"loops": LOOPS, "budget": (launch_bound,), "pauses": ()}.get(
        options.only, (*LOOPS, launch_bound)
    )
    budget = None if options.budget == "none" else float(options.budget)
    print(f"load {os.getloadavg()[0]:.1f} of {os.cpu_count()} processors, {time.strftime('%F')}")
    for loop in chosen:
        print(f"{loop.__name__:14} {cost_of(loop, options.blocks, budget)}", flush=True)
    if options.only in (None, "pauses"):
        for what, times in held_up(options.rounds).items():
            print(f"held up by {what:8} {times}", flush=True)


if __name__ == "__main__":
    main()
