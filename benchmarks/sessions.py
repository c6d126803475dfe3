"""One profiled run of a workload, with its times: the same code for both profilers."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

import opscope
from benchmarks.workloads import Unit, Workload

PROFILERS: dict[str, Callable[..., Any]] = {
    "opscope": opscope.profile,
    "torch": torch.profiler.profile,
}

SETTINGS: dict[str, dict[str, bool]] = {
    "default": {},
    "shapes": {"record_shapes": True},
    "memory": {"profile_memory": True},
    "stack": {"with_stack": True},
}

STRETCHES = 25


@dataclass(frozen=True)
class Run:
    """What one profiled run took.

    Attributes:
        plain_ns: CPU time of a unit without a profiler.
        recorded_ns: of a unit while recording.
        stop_s: of ``stop()``, wall time.
        look_s: of what was done with the result afterwards, wall time.
        file_bytes: of the file or folder that was written, 0 if none.
    """

    plain_ns: float
    recorded_ns: float
    stop_s: float = 0.0
    look_s: float = 0.0
    file_bytes: int = 0

    @property
    def added_ns(self) -> float:
        """CPU time that recording added to a unit."""
        return self.recorded_ns - self.plain_ns


def new_profile(profiler: str, setting: str) -> Any:
    """A profile object of either profiler, recording the CPU."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    return PROFILERS[profiler](activities=activities, **SETTINGS[setting])


def start_kineto() -> None:
    """Have torch.profiler set itself up, which takes a second, before processes are forked.

    Runs no backward pass: after one, a forked process could not run any.
    """
    with new_profile("torch", "default"):
        torch.ones(4).add(1)


def run(profiler: str, workload: Workload, setting: str, look: str = "") -> Run:
    """Run a workload without a profiler, then under one; ``look`` is a key of ``LOOKS``."""
    unit = workload.build()
    plain_ns = time_unprofiled(unit, workload.units)
    with new_profile(profiler, setting) as small:
        unit()
    small.key_averages().table()  # what a process does once only, such as importing, is done here
    profiled = new_profile(profiler, setting)
    profiled.start()
    recorded_ns = time_units(unit, workload.units)
    began = time.perf_counter()
    profiled.stop()
    stop_s = time.perf_counter() - began
    look_s, file_bytes = LOOKS[look](profiled) if look else (0.0, 0)
    return Run(plain_ns, recorded_ns, stop_s, look_s, file_bytes)


def count_events(workload: Workload, setting: str) -> float:
    """Events per unit, as opscope counts them; both profilers' times are divided by it."""
    unit = workload.build()
    unit()
    with new_profile("opscope", setting) as profiled:
        for _ in range(5):
            unit()
    return len(profiled.trace.events) / 5


def time_unprofiled(unit: Unit, units: int) -> float:
    """CPU nanoseconds per unit, after a warm-up as long as the measurement."""
    time_units(unit, units)
    return time_units(unit, units)


def time_units(unit: Unit, units: int) -> float:
    """CPU nanoseconds of this thread per unit: the median of some stretches.

    CPU time, because wall time would count what other programs take; the median, because they still
    disturb a stretch now and then, through caches and interrupts.
    """
    stretch = max(1, units // STRETCHES)
    elapsed = []
    for _ in range(STRETCHES):
        began = time.thread_time_ns()
        for _ in range(stretch):
            unit()
        elapsed.append((time.thread_time_ns() - began) / stretch)
    return median(elapsed)


def _table(profiled: Any) -> tuple[float, int]:
    began = time.perf_counter()
    profiled.key_averages().table()
    return time.perf_counter() - began, 0


def _chrome(suffix: str) -> Callable[[Any], tuple[float, int]]:
    return lambda profiled: _export(profiled.export_chrome_trace, suffix)


def _perfetto(profiled: Any) -> tuple[float, int]:
    len(profiled.trace.events)  # decoded now: torch.profiler does that in stop()
    return _export(profiled.export_perfetto, ".pftrace")


def _export(write: Callable[[str], object], suffix: str) -> tuple[float, int]:
    with temporary_path("trace" + suffix) as path:
        began = time.perf_counter()
        write(path)
        return time.perf_counter() - began, os.path.getsize(path)


def _save(profiled: Any) -> tuple[float, int]:
    with temporary_path("trace.opscope") as path:
        began = time.perf_counter()
        profiled.trace.save(path)
        elapsed = time.perf_counter() - began
        files = [os.path.join(folder, f) for folder, _, names in os.walk(path) for f in names]
        return elapsed, sum(map(os.path.getsize, files))


LOOKS: dict[str, Callable[[Any], tuple[float, int]]] = {
    "table": _table,
    "json": _chrome(".json"),
    "json.gz": _chrome(".json.gz"),
    "pftrace": _perfetto,
    "save": _save,
}


@contextmanager
def temporary_path(name: str) -> Iterator[str]:
    """A path in a folder that goes away; in memory where the system has such a place."""
    in_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="opscope-benchmark-", dir=in_memory) as folder:
        yield os.path.join(folder, name)
