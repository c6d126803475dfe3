"""From stop() to a table, to a file: all that a user waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.figures import Figure
from benchmarks.isolation import in_fork
from benchmarks.rounds import Rounds
from benchmarks.sessions import Run, count_events, run
from benchmarks.workloads import WORKLOADS, Workload

LOOKS = (
    ("table", "stop() and key_averages().table()", 0.01, 0.5),
    ("json", "stop() and Chrome export", 0.20, 1.0),
    ("json.gz", "stop() and Chrome export, gz", 0.20, 1.0),
)
"""What is done, its name, its target, and the share of the workload to do it with."""

_LEAST = 0.2  # of a workload: in less, what does not depend on the events is much of the time


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Time per event until the result is there, decoding included, and the size of files."""
    for workload in WORKLOADS:
        for setting in ("default", "shapes") if rounds.count > 2 else ("default",):
            for look, name, target, share in LOOKS:
                part = workload.scaled(max(rounds.share * share, _LEAST))
                yield _waiting(part, setting, look, f"{name}, {setting}", target, rounds)
            yield _size(workload.scaled(rounds.share), setting, rounds)


def _waiting(
    workload: Workload, setting: str, look: str, name: str, target: float, rounds: Rounds
) -> Figure:
    runs = _both(
        workload, setting, dict.fromkeys(("opscope", "torch"), look), name, rounds, rounds.few
    )
    events = in_fork(count_events, workload, setting) * workload.units
    waited = {
        profiler: [(run.stop_s + run.look_s) * 1e9 / events for run in results]
        for profiler, results in runs.items()
    }
    return Figure(
        name, workload.name, "ns/event", waited["opscope"], waited["torch"], target=target
    )


def _size(workload: Workload, setting: str, rounds: Rounds) -> Figure:
    looks = {"opscope": "save", "torch": "json"}
    runs = _both(workload, setting, looks, "sizes of files", rounds, count=1)
    events = in_fork(count_events, workload, setting) * workload.units
    size = {name: [run.file_bytes / events for run in results] for name, results in runs.items()}
    return Figure(
        f"size of the trace folder, {setting}",
        workload.name,
        "bytes/event",
        size["opscope"],
        size["torch"],
        compared_with="torch.profiler's Chrome JSON",
        target=0.05,
    )


def _both(
    workload: Workload,
    setting: str,
    looks: dict[str, str],
    title: str,
    rounds: Rounds,
    count: int | None = None,
) -> dict[str, list[Run]]:
    def variant(profiler: str, look: str) -> Callable[[], Run]:
        return lambda: in_fork(run, workload, profiler, setting, look)

    variants = {profiler: variant(profiler, look) for profiler, look in looks.items()}
    return rounds.interleave(f"{title}, {workload.name}", variants, count)
