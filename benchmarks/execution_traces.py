"""Execution traces: what observing adds to a program, and what the file takes to write."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

import opscope
from benchmarks.figures import Figure
from benchmarks.isolation import in_fork
from benchmarks.rounds import Rounds
from benchmarks.sessions import Run, count_events, temporary_path, time_units, time_unprofiled
from benchmarks.workloads import WORKLOADS, Workload

OBSERVERS: dict[str, Callable[[], Any]] = {
    "opscope": opscope.ExecutionTraceObserver,
    "torch": torch.profiler.ExecutionTraceObserver,
}
_THEIRS = "torch's observer"


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Added time per operator; time to the file against all that torch's observer took."""
    for workload in WORKLOADS:
        part = workload.scaled(rounds.share)
        runs = rounds.in_forks(f"execution trace, {part.name}", OBSERVERS, _observe, part)
        ours, theirs = runs["opscope"], runs["torch"]
        per_unit = in_fork(count_events, part, "default")
        yield Figure(
            "execution trace, recording",
            part.name,
            "ns/operator",
            [run.added_ns / per_unit for run in ours],
            [run.added_ns / per_unit for run in theirs],
            compared_with=_THEIRS,
            target=0.15,
        )
        yield Figure(
            f"execution trace, stop() and write {per_unit * part.units:,.0f} operators",
            part.name,
            "ms",
            [run.stop_s * 1e3 for run in ours],
            [run.added_ns * part.units / 1e6 + run.stop_s * 1e3 for run in theirs],
            compared_with=f"{_THEIRS}, from start to file",
            target=0.5,
            note="torch's observer writes while the program runs, so all it took is compared",
        )


def _observe(name: str, workload: Workload) -> Run:
    """Run a workload without an observer, then under one.

    ``stop_s`` is CPU time of all threads until the file is there, like the other times.
    """
    unit = workload.build()
    plain_ns = time_unprofiled(unit, workload.units)
    with temporary_path("trace.json") as path:
        for units in (1, workload.units):  # what a process does once only is done in the first
            observer = OBSERVERS[name]()
            observer.register_callback(path)
            observer.start()
            recorded_ns = time_units(unit, units)
            began = time.process_time()
            observer.stop()
            observer.unregister_callback()
        return Run(plain_ns, recorded_ns, time.process_time() - began)
