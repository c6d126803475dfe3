"""Stopping a long recording, while another Python thread wants to go on."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator

from benchmarks.figures import Figure
from benchmarks.isolation import in_fork
from benchmarks.rounds import Rounds
from benchmarks.sessions import new_profile, temporary_path
from benchmarks.workloads import SMALL_OPERATORS

STAGES = {
    "opscope": ("python", "stop", "decode", "table", "json", "json.gz"),
    "torch": ("python", "stop", "table", "json.gz"),  # exports once only
}


def measure(rounds: Rounds) -> Iterator[Figure]:
    """stop() after a million events, and the longest another thread waits meanwhile."""
    million = SMALL_OPERATORS.scaled(10 * rounds.share)
    few = SMALL_OPERATORS.scaled(rounds.share)
    variants: dict[str, Callable[[], dict[str, tuple[float, float]]]] = {
        "opscope": lambda: in_fork(_stages, "opscope", million.units),
        "torch": lambda: in_fork(_stages, "torch", few.units),
    }
    stages = rounds.interleave("stop() beside another thread", variants, max(2, rounds.count // 2))
    events = million.units * 1000
    yield Figure(
        f"stop() after {events:,} events",
        million.name,
        "ms",
        [stage["stop"][0] * 1e3 for stage in stages["opscope"]],
        [stage["stop"][0] * 1e3 * million.units / few.units for stage in stages["torch"]],
        target=0.01,
        limit=20.0,
        note=f"torch.profiler's: that of {few.units * 1000:,} events, scaled",
    )
    yield _pause(stages, "stop", "another thread's longest wait during stop()", "stop")
    reading = "another thread's longest wait during decoding, table, exports"
    yield _pause(stages, "decode table json json.gz", reading, "stop table json.gz")


def _pause(
    stages: dict[str, list[dict[str, tuple[float, float]]]], ours: str, name: str, theirs: str
) -> Figure:
    usual = [stage["python"][1] * 1e3 for stage in stages["opscope"]]
    torch_ms = max(stage[key][1] * 1e3 for stage in stages["torch"] for key in theirs.split())
    return Figure(
        name,
        "small operators",
        "ms",
        [max(stage[key][1] for key in ours.split()) * 1e3 for stage in stages["opscope"]],
        usual,
        compared_with="any Python code",
        target=2.0,
        note=f"a tenth of the events with torch.profiler: {torch_ms:,.0f} ms",
    )


def _stages(profiler: str, units: int) -> dict[str, tuple[float, float]]:
    """Of each stage: seconds it took, and the longest the other thread waited during it."""
    unit = SMALL_OPERATORS.build()
    with new_profile(profiler, "default"):
        unit()
    profiled = new_profile(profiler, "default")
    profiled.start()
    for _ in range(units):
        unit()
    ticker = _Ticker()
    with temporary_path("trace.json") as plain, temporary_path("trace.json.gz") as packed:
        actions: dict[str, Callable[[], object]] = {
            "python": _keep_python_busy,
            "stop": profiled.stop,
            "decode": lambda: profiled.trace,
            "table": lambda: profiled.key_averages().table(),
            "json": lambda: profiled.export_chrome_trace(plain),
            "json.gz": lambda: profiled.export_chrome_trace(packed),
        }
        result = {stage: ticker.watch(actions[stage]) for stage in STAGES[profiler]}
    ticker.stop()
    return result


def _keep_python_busy() -> None:
    total = 0
    for number in range(5_000_000):
        total += number


class _Ticker:
    """A thread that wakes up every millisecond and notes when it did."""

    def __init__(self) -> None:
        self._running = True
        self._ticks: list[float] = []
        self._thread = threading.Thread(target=self._tick, daemon=True)
        self._thread.start()

    def watch(self, action: Callable[[], object]) -> tuple[float, float]:
        """How long ``action`` took, and the longest time between two ticks meanwhile."""
        self._ticks.clear()
        began = time.perf_counter()
        action()
        ended = time.perf_counter()
        ticks = [began, *(t for t in self._ticks if began < t < ended), ended]
        return ended - began, max(b - a for a, b in itertools.pairwise(ticks))

    def stop(self) -> None:
        self._running = False
        self._thread.join()

    def _tick(self) -> None:
        while self._running:
            time.sleep(0.001)
            self._ticks.append(time.perf_counter())
