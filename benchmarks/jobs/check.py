"""Compares answers about a generated job with its description."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.jobs.generated import GeneratedJob
from opscope.api.job import Job
from opscope.columns.causes import Cause
from opscope.jobs.questions.answer import JobAnswer

MOST_OFF = 0.05
CERTAINLY_SLOW = 0.1
"""More than the others, so that a rank has to be found; below half of it, it must not be."""
LEAVES = ("aten::addmm", "aten::mm", "aten::t", "aten::relu", "aten::add_")


def differences(job: Job, made: GeneratedJob, engine: str) -> Iterator[str]:
    """Differences between answers and description; a rank's times may differ by 5 %.

    Where not all ranks have been written, it is about those that have.
    """
    yield from _parts(job.query("causes", engine), made, job.ranks)
    yield from _operators(job.query("operators", engine), made, job.ranks)
    yield from _who(job, made)
    memory = {row["rank"]: row["bytes"] for row in job.query("memory", engine).as_dicts()}
    expected = {rank: made.peak_bytes(rank) for rank in job.ranks}
    if memory != expected:
        yield "peaks of memory"
    (lost,) = job.query("losses", engine).as_dicts()
    if lost["dropped"] != sum(job.ranks) or lost["most_rank"] != max(job.ranks):
        yield f"losses: {lost}"


def _parts(answer: JobAnswer, made: GeneratedJob, ranks: list[int]) -> Iterator[str]:
    """Every cause of every rank."""
    found = {(row["rank"], row["cause"]): row["time_ns"] for row in answer.as_dicts()}
    worst = 0.0
    for rank in ranks:
        for cause, true in enumerate(made.truth(rank).tolist()):
            name = Cause(cause).name.lower()
            shown = found.get((rank, name), 0)
            off = abs(shown - true) / true if true else float(shown)
            worst = max(worst, off)
            if off > MOST_OFF:
                yield f"rank {rank} {name}: {shown:,} ns, is {true:,.0f}"
    print(f"causes of every rank: off by {worst:.2%} at most")


def _operators(answer: JobAnswer, made: GeneratedJob, ranks: list[int]) -> Iterator[str]:
    """Calls and time of operators that call no others, over all ranks."""
    rows = {row["name"]: row for row in answer.as_dicts()}
    for name in LEAVES:
        true = [made.operator_truth(rank, name) for rank in ranks]
        row, times = rows[name], [time_ns for _, time_ns in true]
        if row["calls"] != sum(calls for calls, _ in true):
            yield f"calls of {name}: {row['calls']}"
        checked = {"self_ns": sum(times), "most_ns": max(times), "least_ns": min(times)}
        for column, value in checked.items():
            if abs(row[column] - value) > MOST_OFF * value:
                yield f"{column} of {name}: {row[column]:,}, is {value:,.0f}"
        # Of aten::t all ranks have the same.
        if name != "aten::t" and row["most_rank"] != ranks[int(np.argmax(times))]:
            yield f"who has most {name}: {row['most_rank']}"


def _who(job: Job, made: GeneratedJob) -> Iterator[str]:
    """Slow ranks by name and cause, and no others."""
    found = {one.process.number: one.cause for one in job.slow_ranks().found}
    planted = {made.slow_rank: Cause.OPERATOR, made.loading_rank: Cause.LOADER}
    planted = {rank: cause for rank, cause in planted.items() if rank in job.ranks}
    middle = np.median([made.own_ns(rank).sum() for rank in job.ranks])
    for rank, cause in planted.items():
        more = made.own_ns(rank).sum() / middle - 1
        if found.get(rank, cause) is not cause or (more > CERTAINLY_SLOW and rank not in found):
            yield f"rank {rank} takes {more:.1%} more, {cause.title}: {found.get(rank)}"
    if others := found.keys() - planted:
        yield f"slow ranks, which are not: {others}"
