"""Files to look at: Perfetto's format against Chrome's, and the report of a million events."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

from benchmarks.figures import Figure
from benchmarks.isolation import in_fork
from benchmarks.rounds import Rounds
from benchmarks.sessions import count_events, new_profile, temporary_path
from benchmarks.workloads import TRAINING, WORKLOADS, Workload

Written = tuple[float, int]  # seconds, bytes

_REPORT_EVENTS = 1_000_000
_NOTHING = 0.0  # torch.profiler has no report to compare with


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Writing alone: the recording has been stopped and decoded before."""
    for workload in WORKLOADS:
        for setting in ("default", "shapes", "all"):
            yield from _perfetto(workload.scaled(rounds.share), setting, rounds)
    yield from _report(rounds)


def _perfetto(workload: Workload, setting: str, rounds: Rounds) -> Iterator[Figure]:
    def variant(profiler: str) -> Callable[[], Written]:
        return lambda: in_fork(export, workload, profiler, setting)

    name = f"Perfetto export, {setting}"
    variants = {profiler: variant(profiler) for profiler in ("opscope", "torch")}
    files = rounds.interleave(f"{name}, {workload.name}", variants, rounds.few)
    events = in_fork(count_events, workload, setting) * workload.units
    for what, unit, scale, part, target in (
        ("time", "ns/event", 1e9, 0, 0.10),
        ("size", "bytes/event", 1.0, 1, 0.15),
    ):
        ours, theirs = (
            [file[part] * scale / events for file in files[profiler]] for profiler in variants
        )
        yield Figure(
            f"{name}, {what}",
            workload.name,
            unit,
            ours,
            theirs,
            compared_with="torch.profiler's Chrome JSON",
            target=target,
        )


def _report(rounds: Rounds) -> Iterator[Figure]:
    per_unit = in_fork(count_events, TRAINING, "shapes")
    units = int(_REPORT_EVENTS * rounds.share / per_unit) + 1
    title = f"report of {units * per_unit:,.0f} events"
    variants = {"opscope": lambda: in_fork(report, TRAINING, units)}
    written = rounds.interleave(title, variants, max(2, rounds.count // 2))["opscope"]
    for what, unit, scale, part, limit in (
        ("time", "s", 1.0, 0, 5.0),
        ("size", "MB", 1e-6, 1, 40.0),
    ):
        ours = [file[part] * scale for file in written]
        name = f"{title}, {what}"
        other = [_NOTHING] * len(ours)
        yield Figure(name, TRAINING.name, unit, ours, other, "nothing", limit=limit)


def export(workload: Workload, profiler: str, setting: str) -> Written:
    """Profile a workload, then write it: opscope in Perfetto's format, torch as Chrome JSON."""
    unit = workload.build()
    with new_profile(profiler, setting) as profiled:
        for _ in range(workload.units):
            unit()
    if profiler == "opscope":
        len(profiled.trace.events)  # decoded now: torch.profiler does that in stop()
    with temporary_path("trace.pftrace" if profiler == "opscope" else "trace.json") as path:
        write = profiled.export_perfetto if profiler == "opscope" else profiled.export_chrome_trace
        began = time.perf_counter()
        write(path)
        return time.perf_counter() - began, os.path.getsize(path)


def report(workload: Workload, units: int) -> Written:
    """Profile ``units`` units with shapes, then write the page."""
    unit = workload.build()
    with new_profile("opscope", "shapes") as profiled:
        for _ in range(units):
            unit()
    len(profiled.trace.events)
    with temporary_path("report.html") as path:
        began = time.perf_counter()
        profiled.export_report(path)
        return time.perf_counter() - began, os.path.getsize(path)
