"""Stopping a long recording, while another Python thread wants to go on."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator

from benchmarks.figures import Figure
from benchmarks.rounds import Rounds
from benchmarks.sessions import new_profile, temporary_path
from benchmarks.workloads import SMALL_OPERATORS

STAGES = {
    "opscope": ("python", "stop", "decode", "table", "json", "json.gz"),
    "torch": ("python", "stop", "table", "json.gz"),  # exports once only
}

Stages = dict[str, tuple[float, float]]
"""Of each: seconds it took, and the longest the other thread waited during it."""


def measure(rounds: Rounds) -> Iterator[Figure]:
    """stop() after a million events, and the longest another thread waits meanwhile."""
    million, few = (SMALL_OPERATORS.scaled(share * rounds.share).units for share in (10, 1))
    units = {"opscope": million, "torch": few}
    title, count = "stop() beside another thread", max(2, rounds.count // 2)
    stages = rounds.in_forks(title, units, _stages, units, count=count)
    yield Figure(
        f"stop() after {million * 1000:,} events",
        SMALL_OPERATORS.name,
        "ms",
        [stage["stop"][0] * 1e3 for stage in stages["opscope"]],
        [stage["stop"][0] * 1e3 * million / few for stage in stages["torch"]],
        target=0.01,
        limit=20.0,
        note=f"torch.profiler's: that of {few * 1000:,} events, scaled",
    )
    yield _pause(stages, "stop", "another thread's longest wait during stop()", "stop")
    reading = "another thread's longest wait during decoding, table, exports"
    yield _pause(stages, "decode table json json.gz", reading, "stop table json.gz")


def _pause(stages: dict[str, list[Stages]], ours: str, name: str, theirs: str) -> Figure:
    torch_ms = max(stage[key][1] * 1e3 for stage in stages["torch"] for key in theirs.split())
    return Figure(
        name,
        SMALL_OPERATORS.name,
        "ms",
        [max(stage[key][1] for key in ours.split()) * 1e3 for stage in stages["opscope"]],
        [stage["python"][1] * 1e3 for stage in stages["opscope"]],
        compared_with="any Python code",
        target=2.0,
        note=f"a tenth of the events with torch.profiler: {torch_ms:,.0f} ms",
    )


def _stages(profiler: str, units: dict[str, int]) -> Stages:
    unit = SMALL_OPERATORS.build()
    with new_profile(profiler, "default"):
        unit()
    profiled = new_profile(profiler, "default")
    profiled.start()
    for _ in range(units[profiler]):
        unit()
    with temporary_path("trace.json") as plain, temporary_path("trace.json.gz") as packed:
        actions: dict[str, Callable[[], object]] = {
            "python": lambda: sum(number for number in range(5_000_000)),
            "stop": profiled.stop,
            "decode": lambda: profiled.trace,
            "table": lambda: profiled.key_averages().table(),
            "json": lambda: profiled.export_chrome_trace(plain),
            "json.gz": lambda: profiled.export_chrome_trace(packed),
        }
        ticks: list[float] = []
        threading.Thread(target=_tick, args=(ticks,), daemon=True).start()
        return {stage: _watch(actions[stage], ticks) for stage in STAGES[profiler]}


def _tick(ticks: list[float]) -> None:
    """Wake up every millisecond, and note when."""
    while True:
        time.sleep(0.001)
        ticks.append(time.perf_counter())


def _watch(action: Callable[[], object], ticks: list[float]) -> tuple[float, float]:
    """How long ``action`` took, and the longest time between two ticks meanwhile."""
    ticks.clear()
    began = time.perf_counter()
    action()
    ended = time.perf_counter()
    times = [began, *(t for t in ticks if began < t < ended), ended]
    return ended - began, max(b - a for a, b in itertools.pairwise(times))
