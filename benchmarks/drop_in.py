"""What torch.profiler's own interface adds to opscope's recording, under ``opscope.drop_in``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import opscope.drop_in
from benchmarks.figures import Figure
from benchmarks.isolation import in_fork
from benchmarks.rounds import Rounds
from benchmarks.sessions import Run, count_events, run
from benchmarks.workloads import WORKLOADS, Workload

SETTINGS = ("default", "shapes")
TARGET = 1.1  # nothing is added; two runs of the same code differ by this much


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Time per event recorded through ``torch.profiler.profile`` and ``opscope.profile``."""
    for workload in WORKLOADS:
        part = workload.scaled(rounds.share)
        for setting in SETTINGS:
            variants = {"drop-in": _switched(part, setting), "opscope": _direct(part, setting)}
            runs = rounds.interleave(f"drop-in, {part.name}, {setting}", variants)
            events = in_fork(count_events, part, setting)
            added = {name: [one.added_ns / events for one in of] for name, of in runs.items()}
            yield Figure(
                f"recording through the drop-in, {setting}",
                part.name,
                "ns/event",
                added["drop-in"],
                added["opscope"],
                compared_with="opscope.profile",
                target=TARGET,
            )


def _direct(workload: Workload, setting: str) -> Callable[[], Run]:
    return lambda: in_fork(run, workload, "opscope", setting)


def _switched(workload: Workload, setting: str) -> Callable[[], Run]:
    return lambda: in_fork(_run_switched, workload, setting)


def _run_switched(workload: Workload, setting: str) -> Run:
    with opscope.drop_in.install():
        return run(workload, "torch", setting)
