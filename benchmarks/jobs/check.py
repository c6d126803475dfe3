"""Is everything right that is said of a generated job? Against what is known of it, and raw tables:

    python -m benchmarks.jobs.check FOLDER [--sample 4] [--engine duckdb]

Every part of every rank's time is compared with the truth, and may be off by a twentieth; and of a
sample of ranks, all answers with sums over their raw tables, which must be equal. Where not all
ranks have been written, it is about those that have.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from benchmarks.jobs.generated import GeneratedJob
from benchmarks.jobs.make import job_of
from opscope.api.job import Job
from opscope.columns.causes import Cause
from opscope.jobs.questions.answer import JobAnswer
from opscope.jobs.rollup.schema import OPERATOR_DETAILS

MOST_OFF = 0.05
CERTAINLY_SLOW = 0.1
"""More than the others, so that a rank has to be found; below half of it, it must not be."""
LEAVES = ("aten::addmm", "aten::mm", "aten::t", "aten::relu", "aten::add_", "c10d::allreduce_")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sample", type=int, default=4, help="ranks whose raw tables are read")
    parser.add_argument("--engine", default="duckdb")
    asked = parser.parse_args()
    made = job_of(asked.folder)
    job = Job(asked.folder)
    wrong = [*_against_truth(job, made, asked.engine)]
    sample = _sample(made, job.ranks, asked.sample)
    wrong += _against_tables(Job(asked.folder, sample), asked.folder, sample, asked.engine)
    print(f"{len(job)} ranks, {made.steps} steps each; raw tables of ranks {sample}")
    for line in wrong:
        print("wrong:", line)
    print("everything agrees" if not wrong else f"{len(wrong)} things differ")
    sys.exit(bool(wrong))


def _sample(made: GeneratedJob, ranks: list[int], count: int) -> list[int]:
    special = [made.slow_rank, made.loading_rank, made.fullest_rank]
    wanted = [rank for rank in special if rank in ranks] + ranks[:: max(len(ranks) // count, 1)]
    return sorted([*dict.fromkeys(wanted)][: max(count, 1)])


def _against_truth(job: Job, made: GeneratedJob, engine: str) -> Iterator[str]:
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
            said = found.get((rank, name), 0)
            off = abs(said - true) / true if true else float(said)
            worst = max(worst, off)
            if off > MOST_OFF:
                yield f"rank {rank} {name}: {said:,} ns, is {true:,.0f}"
    print(f"causes of every rank: off by {worst:.2%} at most")


def _operators(answer: JobAnswer, made: GeneratedJob, ranks: list[int]) -> Iterator[str]:
    """Calls and time of operators that call no others, over all ranks."""
    rows = {row["name"]: row for row in answer.as_dicts()}
    for name in LEAVES[:-1]:
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
    """The slow ones by name and cause, and nobody else."""
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


def _against_tables(job: Job, folder: Path, ranks: list[int], engine: str) -> Iterator[str]:
    """All answers about these ranks, as sums over their raw tables have them."""
    raw = [_Raw(folder, rank) for rank in ranks]
    ask = {name: job.query(name, engine).as_dicts() for name in ("operators", "steps", "ranks")}
    for row in ask["operators"]:
        per_rank = {one.rank: one.operators.get(row["name"], (0, 0)) for one in raw}
        times = {rank: own for rank, (calls, own) in per_rank.items() if calls}
        most = min(times, key=lambda rank: (-times[rank], rank))
        least = min(times, key=lambda rank: (times[rank], rank))
        expected = {
            "calls": sum(calls for calls, _ in per_rank.values()),
            "self_ns": sum(times.values()),
            "most_rank": most,
            "most_ns": times[most],
            "least_rank": least,
            "least_ns": times[least],
        }
        yield from _differences(f"operator {row['name']}", row, expected)
    steps = np.stack([one.own_ns for one in raw])
    for number, row in enumerate(ask["steps"]):
        expected = {"step": number, "own_ns": int(steps[:, number].max())}
        expected["slowest_rank"] = ranks[int(np.argmax(steps[:, number]))]
        expected["median_own_ns"] = int(np.median(steps[:, number]))
        yield from _differences(f"step {number}", row, expected)
    slowest = np.argmax(steps, axis=0)
    for row in ask["ranks"]:
        place = ranks.index(row["rank"])
        expected = {
            "steps": steps.shape[1],
            "median_own_ns": int(np.median(steps[place])),
            "longest_own_ns": int(steps[place].max()),
            "median_wall_ns": int(np.median(raw[place].wall_ns)),
            "slowest_in": int((slowest == place).sum()),
        }
        yield from _differences(f"rank {row['rank']}", row, expected)
    yield from _sums(job, raw, engine)


def _sums(job: Job, raw: list[_Raw], engine: str) -> Iterator[str]:
    """What adds up: modules to operators, lines to calls, causes to the time there was."""
    whole = sum(own for one in raw for _, own in one.operators.values())
    modules = sum(row["self_ns"] for row in job.query("modules", engine).as_dicts())
    if modules != whole:
        yield f"modules add up to {modules:,}, operators to {whole:,}"
    lines = {row["line"]: row for row in job.query("lines", engine).as_dicts()}
    waits = sum(one.operators["c10d::allreduce_"][1] for one in raw)
    if lines[22]["self_ns"] != waits:
        yield f"the line of the collective: {lines[22]['self_ns']:,}, is {waits:,}"
    of_rank: dict[int, int] = {}
    for row in job.query("causes", engine).as_dicts():
        of_rank[row["rank"]] = of_rank.get(row["rank"], 0) + row["time_ns"]
    if of_rank != {one.rank: int(one.wall_ns.sum()) for one in raw}:
        yield "causes do not add up to the steps"
    peaks = {row["rank"]: row["bytes"] for row in job.query("memory", engine).as_dicts()}
    if peaks != {one.rank: one.peak_bytes for one in raw}:
        yield "peaks are not those of the allocations"
    allocated = sum(one.allocated_bytes for one in raw)
    rollups = job._rollups().values()
    tables = [one.table(OPERATOR_DETAILS.name) for one in rollups]
    said = sum(int(table["allocated_bytes"].sum()) for table in tables)
    if said != allocated:
        yield f"allocated: {said:,} bytes, are {allocated:,}"


def _differences(what: str, row: dict[str, Any], expected: dict[str, Any]) -> Iterator[str]:
    wrong = {name: (row[name], value) for name, value in expected.items() if row[name] != value}
    if wrong:
        yield f"{what}: " + ", ".join(f"{k} {a}, is {b}" for k, (a, b) in wrong.items())


class _Raw:
    """Of one rank what its tables say, by SQL that knows nothing of opscope."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.rank = rank
        place = folder / f"rank={rank:05d}"
        for table in ("events", "names", "allocations"):
            duckdb.sql(
                f"create or replace view {table} as select * from read_parquet("
                f"'{place}/{table}.parquet', hive_partitioning = false)"
            )
        found = duckdb.sql(
            "with inside as (select parent, sum(duration_ns) as inside from events group by all) "
            "select names.text, count(*), sum(duration_ns - coalesce(inside, 0))::bigint from "
            "events join names on names.id = events.name left join inside on "
            "inside.parent = events.id where kind = 0 group by all"
        ).fetchall()
        self.operators = {name: (calls, own) for name, calls, own in found}
        steps = duckdb.sql(
            "select step, max(duration_ns) filter (names.text like 'ProfilerStep#%'), "
            "sum(duration_ns) filter (names.text = 'c10d::allreduce_')::bigint from events join "
            "names on names.id = events.name group by step order by step"
        ).fetchnumpy()
        _, wall, waited = steps.values()
        self.wall_ns = np.asarray(wall, dtype=np.int64)
        self.own_ns = self.wall_ns - np.asarray(waited, dtype=np.int64)
        found = duckdb.sql(
            "select sum(size_bytes) filter (size_bytes > 0)::bigint, max(used)::bigint from "
            "(select size_bytes, sum(size_bytes) over (order by time_ns) as used from allocations)"
        ).fetchall()
        self.allocated_bytes, self.peak_bytes = found[0]


if __name__ == "__main__":
    main()
