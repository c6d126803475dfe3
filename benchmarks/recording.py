"""What recording adds to a program, per event."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from benchmarks.empty_callback import library, run_empty_callback
from benchmarks.figures import Figure
from benchmarks.isolation import in_fork
from benchmarks.rounds import Rounds
from benchmarks.sessions import Run, count_events, run
from benchmarks.workloads import WORKLOADS, Workload

SETTINGS = ("default", "shapes", "memory")
FLOOR_TARGETS = {"default": 1.8}

Runs = dict[tuple[str, str], list[Run]]
"""Of opscope, torch and the floor, by setting."""


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Added time per event, and time to stop, against torch.profiler and an empty callback."""
    library()
    for workload in WORKLOADS:
        part = workload.scaled(rounds.share)
        runs = rounds.interleave(f"recording, {part.name}", _variants(part))
        for setting in SETTINGS:
            events = in_fork(count_events, part, setting)
            yield from _recording(part.name, setting, runs, events)
            yield _stopping(part.name, setting, runs, events * part.units)


def _variants(workload: Workload) -> dict[tuple[str, str], Callable[[], Run]]:
    def profiled(profiler: str, setting: str) -> Callable[[], Run]:
        return lambda: in_fork(run, workload, profiler, setting)

    def empty(setting: str) -> Callable[[], Run]:
        return lambda: in_fork(run_empty_callback, workload, setting)

    variants: dict[tuple[str, str], Callable[[], Run]] = {}
    for setting in SETTINGS:
        variants["floor", setting] = empty(setting)
        variants["opscope", setting] = profiled("opscope", setting)
        variants["torch", setting] = profiled("torch", setting)
    return variants


def _recording(workload: str, setting: str, runs: Runs, events: float) -> Iterator[Figure]:
    def added(name: str) -> Sequence[float]:
        return [run.added_ns / events for run in runs[name, setting]]

    name = f"recording, {setting}"
    ours, theirs, floor = added("opscope"), added("torch"), added("floor")
    yield Figure(name, workload, "ns/event", ours, theirs, target=0.40, floor=floor)
    yield Figure(
        name,
        workload,
        "ns/event",
        ours,
        floor,
        compared_with="an empty callback",
        target=FLOOR_TARGETS.get(setting),
    )


def _stopping(workload: str, setting: str, runs: Runs, events: float) -> Figure:
    def stopped(name: str) -> Sequence[float]:
        return [run.stop_s * 1e9 / events for run in runs[name, setting]]

    name = f"stop(), {setting}"
    return Figure(name, workload, "ns/event", stopped("opscope"), stopped("torch"), target=0.01)
