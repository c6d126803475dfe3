"""Clocks of machines that are apart: how well are they brought together, and does the bound hold?

    python -m benchmarks.clocks [--ranks 3] [--recordings 5] [--draws 40]

Each recording is of a real job on gloo, all of whose ranks have one clock. Then every rank but the
first is made one of another machine, whose clock is up to 50 ms ahead or behind and gains or loses
up to 50 in a million, drawn anew again and again; what that clock is ahead is known, and compared
with what is found.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

import opscope
from benchmarks.jobs.moved_clock import ClockOf, as_of_machine
from opscope.api.trace import Trace
from opscope.jobs.collectives import job_collectives
from opscope.storage.partition import Partition

PROGRAM = Path(__file__).parent / "jobs" / "straggling_job.py"
MOST_OFFSET_NS, MOST_DRIFT = 50e6, 50e-6


def record(folder: Path, ranks: int) -> list[Trace]:
    """The traces of a job's ranks."""
    command = [sys.executable, "-m", "opscope", "run", "--children", "--shapes", "-o", str(folder)]
    command += [str(PROGRAM), str(ranks), "none", "0", "0"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    job = opscope.load(folder)
    assert isinstance(job, opscope.Job)
    return [job[rank] for rank in job.ranks]


def compare(
    traces: list[Trace], random: np.random.Generator
) -> list[tuple[float, float, bool, int]]:
    """Of each machine but the first: error and bound in the middle of all events, whether the
    bound holds at every event, and how many collectives there were to tell by."""
    origin = int(traces[0].metadata["start_ns"])
    clocks = [ClockOf(0.0, 0.0, origin)]
    for _ in traces[1:]:
        offset, drift = random.uniform(-1, 1, 2) * (MOST_OFFSET_NS, MOST_DRIFT)
        clocks.append(ClockOf(float(offset), float(drift), origin))
    moved = (
        (Partition("rank", rank), as_of_machine(trace, f"machine {rank}", clock))
        for rank, (trace, clock) in enumerate(zip(traces, clocks, strict=True))
    )
    found = job_collectives(moved, with_exposed=False)
    results = []
    for rank in range(1, len(traces)):
        true: npt.NDArray[np.int64] = traces[rank].events["start_ns"]
        there = found.clocks.on_one(rank, true + clocks[rank].ahead_ns(true))
        error = np.abs(there - true)
        bound = found.clocks.bound_ns(rank, there)
        holds = bool((error <= bound + 2).all())
        results.append((float(np.median(error)), float(np.median(bound)), holds, len(found)))
    return results


def main() -> None:
    """Record, draw, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--recordings", type=int, default=5)
    parser.add_argument("--draws", type=int, default=40, help="of clocks, for each recording")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    random = np.random.default_rng(asked.seed)
    results = []
    for _ in range(asked.recordings):
        with tempfile.TemporaryDirectory() as folder:
            traces = record(Path(folder) / "job", asked.ranks)
        own = [one for _ in range(asked.draws) for one in compare(traces, random)]
        results += own
        error, bound, holds, count = np.array(own, dtype=np.float64).T
        print(
            f"{int(count[0])} collectives: error {np.median(error) / 1e3:.0f} µs in the middle, "
            f"{error.max() / 1e3:.0f} at most; bound {np.median(bound) / 1e3:.0f}; it holds for "
            f"{holds.mean():.1%}"
        )
    error, bound, holds, _ = np.array(results, dtype=np.float64).T
    print(
        f"{len(results)} machines: error {np.median(error) / 1e3:.0f} µs in the middle, bound "
        f"{np.median(bound) / 1e3:.0f} µs, which holds for {holds.mean():.2%}"
    )


if __name__ == "__main__":
    main()
