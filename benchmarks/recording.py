"""Time that recording adds to a program, per event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import opscope.drop_in
from benchmarks.empty_callback import library, run_empty_callback
from benchmarks.figures import Figure
from benchmarks.isolation import in_fork
from benchmarks.rounds import Rounds
from benchmarks.sessions import Run, count_events, run
from benchmarks.workloads import WORKLOADS, Workload

SETTINGS = ("default", "shapes", "memory", "stack")
FLOOR_TARGETS = {"default": 1.8}
DROP_IN_TARGET = 1.1  # nothing is added; two runs of the same code differ by this much

Variant = tuple[str, str]
"""Recorder and setting; "floor" is an empty callback."""


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Added time per event, and time to stop, against torch.profiler and an empty callback."""
    library()
    who = ("floor", "opscope", "drop-in", "torch")  # the floor is of operators alone
    variants = [(one, setting) for setting in SETTINGS for one in who]
    for workload in WORKLOADS:
        part = workload.scaled(rounds.share)
        runs = rounds.in_forks(f"recording, {part.name}", variants, _run, part)
        for setting in SETTINGS:
            events = in_fork(count_events, part, setting)
            of_setting = {one: runs[one, setting] for one in who}
            yield from _recording(part.name, setting, of_setting, events)
            stopped = {
                one: [run.stop_s * 1e9 / (events * part.units) for run in taken]
                for one, taken in of_setting.items()
            }
            name, ours, theirs = f"stop(), {setting}", stopped["opscope"], stopped["torch"]
            yield Figure(name, part.name, "ns/event", ours, theirs, target=0.01)


def _run(variant: Variant, workload: Workload) -> Run:
    who, setting = variant
    if who == "floor":
        return run_empty_callback(workload, setting)
    if who == "drop-in":
        with opscope.drop_in.install():
            return run("torch", workload, setting)
    return run(who, workload, setting)


def _recording(
    workload: str, setting: str, runs: dict[str, list[Run]], events: float
) -> Iterator[Figure]:
    def figure(name: str, one: str, other: str, target: float | None, **more: object) -> Figure:
        of_one, of_other = added[one], added[other]
        return Figure(name, workload, "ns/event", of_one, of_other, target=target, **more)  # type: ignore[arg-type]

    added: dict[str, Sequence[float]] = {
        who: [run.added_ns / events for run in taken] for who, taken in runs.items()
    }
    name, of_empty = f"recording, {setting}", FLOOR_TARGETS.get(setting)
    yield figure(name, "opscope", "torch", 0.40, floor=added["floor"])
    yield figure(name, "opscope", "floor", of_empty, compared_with="an empty callback")
    through = f"recording through the drop-in, {setting}"
    yield figure(through, "drop-in", "opscope", DROP_IN_TARGET, compared_with="opscope.profile")
