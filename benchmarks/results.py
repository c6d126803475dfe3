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
_JSON = "torch.profiler's Chrome JSON"


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Time per event until the result is there, decoding included, and the size of files."""
    for workload in WORKLOADS:
        for look, name, target, share in LOOKS:
            part = workload.scaled(max(rounds.share * share, _LEAST))
            yield _Pair(rounds, part, look, look).figure(
                f"{name}, default", "ns/event", lambda run: run.stop_s + run.look_s, target
            )
        part = workload.scaled(rounds.share)
        yield _Pair(rounds, part, "save", "json", count=1).figure(
            "size of the trace folder, default", "bytes/event", _size, 0.05, _JSON
        )
        perfetto = _Pair(rounds, part, "pftrace", "json")  # decoded before
        name = "Perfetto export, default"
        yield perfetto.figure(f"{name}, time", "ns/event", lambda run: run.look_s, 0.10, _JSON)
        yield perfetto.figure(f"{name}, size", "bytes/event", _size, 0.15, _JSON)


def _size(run: Run) -> float:
    return run.file_bytes


class _Pair:
    """Runs of both profilers that end with something done: a key of ``sessions.LOOKS``."""

    def __init__(
        self,
        rounds: Rounds,
        workload: Workload,
        ours: str,
        theirs: str,
        count: int | None = None,
    ) -> None:
        looks = {("opscope", ours): "opscope", ("torch", theirs): "torch"}
        title = f"{ours}, {workload.name}"
        taken = rounds.in_forks(title, looks, _run, workload, count=count or rounds.few)
        self._runs = {looks[look]: runs for look, runs in taken.items()}
        self._workload = workload.name
        self._events = in_fork(count_events, workload, "default") * workload.units

    def figure(
        self,
        name: str,
        unit: str,
        value: Callable[[Run], float],
        target: float,
        compared_with: str = "torch.profiler",
    ) -> Figure:
        """What each run's ``value`` is per event."""
        scale = (1e9 if unit == "ns/event" else 1) / self._events
        ours, theirs = (
            [value(run) * scale for run in self._runs[who]] for who in ("opscope", "torch")
        )
        return Figure(name, self._workload, unit, ours, theirs, compared_with, target)


def _run(look: tuple[str, str], workload: Workload) -> Run:
    profiler, what = look
    return run(profiler, workload, "default", what)
