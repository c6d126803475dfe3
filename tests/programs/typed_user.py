"""A user's program that uses every public name of opscope with the types its documentation gives.

It is not run: type checkers read it (``tests/unit/test_types_for_users.py``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import opscope
import opscope.drop_in
import opscope.triggers


def profile_training(model: torch.nn.Module, folder: Path) -> opscope.Trace:
    plan = opscope.schedule(wait=1, warmup=1, active=3, repeat=1, skip_first=0)
    first: opscope.ProfilerAction = plan(0)
    assert first is not opscope.ProfilerAction.RECORD
    activities: set[opscope.ProfilerActivity] = opscope.supported_activities()
    with opscope.profile(
        activities=activities,
        schedule=plan,
        on_trace_ready=opscope.tensorboard_trace_handler(str(folder)),
        record_shapes=True,
        profile_memory=True,
        with_stack=True,
        with_flops=True,
        with_modules=True,
    ) as prof:
        for _ in range(5):
            with opscope.record_function("forward"):
                model(torch.randn(4, 4))
            prof.step()
    prof.export_chrome_trace(str(folder / "trace.json"))
    prof.export_perfetto(folder / "trace.pftrace")
    prof.export_report(folder / "trace.html")
    prof.export_stacks(folder / "stacks.txt", "self_cpu_time_total")
    prof.export_memory_timeline(folder / "memory.html", device="cpu")
    prof.add_metadata("run", "1")
    prof.add_metadata_json("tags", "[1]")
    prof.preset_metadata_json("tags", "[1]")
    prof.set_custom_trace_id_callback(lambda: "id")
    trace_id: str | None = prof.get_trace_id()
    table: str = prof.key_averages(group_by_input_shape=True).table(sort_by="cpu_time_total")
    names: list[str] = [event.name for event in prof.events()]
    print(trace_id, table, names)
    trace: opscope.Trace = prof.trace
    return trace


@opscope.record_function("decorated")
def decorated(x: int) -> int:
    return x + 1


def look(trace: opscope.Trace, folder: Path) -> None:
    durations = trace.events["duration_ns"]
    total: int = int(durations.sum()) + int(trace.end_ns.max())
    name: str = trace.event_name(0)
    metadata: dict[str, Any] = trace.metadata
    dropped: dict[str, dict[str, float]] = trace.ledger
    rows: int = len(trace.table("allocations"))
    print(total, name, metadata, dropped, rows, trace.tree(), decorated(1) + 1)
    saved: list[float | None] = [finding.saved_ns for finding in trace.findings()]
    print(trace.period("steady").verdict().lines(), trace.summary(), len(trace.steps()))
    lines: list[str] = [finding.title for finding in trace.findings(benchmark=False)]
    print(saved, lines, trace.peak_memory().by_category, trace.account(), trace.critical_path())
    print(trace.what_if({"aten::mm": 0.5}), trace.roofline(), trace.compiled(), trace.period())
    print(trace.engine_steps().requests, trace.requests())
    print(trace.device_use())
    trace.export("chrome", folder / "trace.json")
    path: Path = trace.save(folder / "trace.opscope")
    frame = trace.sql("select count(*) from events").df()
    print(path, frame, trace.to_arrow(), trace.to_pandas("events"), trace.to_polars())


def compare(before: str, after: os.PathLike[str]) -> None:
    a: opscope.Trace = opscope.load(before, rank=0)
    c: opscope.Trace = opscope.load_trace(after)
    d: opscope.Job = opscope.load_job(after)
    print(c, d)
    b: opscope.Trace = opscope.load(after, process=7)
    print(opscope.diff(a, b), opscope.diff([a], [b]))


def look_at_a_job(folder: str) -> Iterator[opscope.Trace]:
    job = opscope.load(folder)
    if not isinstance(job, opscope.Job):
        yield job
        return
    ranks: list[int] = job.ranks
    answer = job.query("stragglers", limit=3)
    print(ranks, job.path, job.parts, job.compared, job.processes, job.unfinished, answer)
    print(job.missing_ranks(), job.ranks_of_another_job(), job.slow_ranks(), job.steps())
    print(job.collectives(), job.critical_path(), job.account(), job.sql("select 1"))
    print(
        job.verdict().metrics(),
        [shared.processes for shared in job.findings()],
        job.save("again.opscope"),
    )
    for _, trace in job.traces():
        yield trace
    try:
        yield job.together()
    except opscope.UnreadableProcessError as error:
        print(f"{error.part} is left out: {error.why}")
        yield job.only(part for part in job.parts if part != error.part).together()


class Full(opscope.triggers.Trigger):
    """Makes a dump when the user says so."""

    def start(self, watched: opscope.triggers.Watched) -> None:
        watched.dump("full")

    def stop(self) -> None:
        pass


def always_on() -> Path:
    opscope.listen()
    triggers = [
        opscope.triggers.SlowStep(factor=2.0),
        opscope.triggers.UncaughtException(),
        opscope.triggers.OutOfMemory(),
        opscope.triggers.Hang(),
        opscope.triggers.OnSignal(),
        opscope.triggers.MemoryJump(),
        opscope.triggers.GcPause(),
        opscope.triggers.When(lambda: False),
        Full(),
    ]
    with opscope.flight_recorder("10s", triggers=triggers, budget=0.02) as recorder:
        recorder.step()
        running: bool = recorder.running
        print(running, recorder.status())
        return recorder.dump("asked", wait=True)


def observe(path: str) -> None:
    observer = opscope.ExecutionTraceObserver().register_callback(path)
    observer.start()
    observer.stop()
    observer.unregister_callback()


def switch() -> bool:
    opscope.drop_in.install()
    installed: bool = opscope.drop_in.is_installed()
    opscope.drop_in.uninstall()
    return installed


def explain(error: Exception) -> int:
    if isinstance(error, opscope.OpscopeError):
        return error.exit_code
    for known in (
        opscope.BridgeError,
        opscope.LifecycleError,
        opscope.MissingDependencyError,
        opscope.ReachError,
        opscope.TraceFormatError,
        opscope.UsageError,
    ):
        print(known.__name__)
    return len(opscope.__version__)
