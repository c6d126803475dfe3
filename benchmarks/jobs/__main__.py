"""``python -m benchmarks.jobs make|check|measure FOLDER``: a generated job and its answers.

make: saves every rank as programs do, with its rollup unless ``--without-rollups``. Existing ranks
stay, so the command can be interrupted and repeated. check: compares answers with the description
of the job. measure: time and memory of each question, in separate processes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from benchmarks.jobs.check import differences
from benchmarks.jobs.generated import GeneratedJob
from opscope.api.job import Job
from opscope.jobs.questions.questions import JobQuestion
from opscope.storage.manifest import MANIFEST, rank_folders
from opscope.storage.partition import RANK, Partition
from opscope.storage.store import save_part

_DESCRIPTION = ".generated.json"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jobs", description=__doc__)
    parser.add_argument("what", choices=("make", "check", "measure"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--events", type=int, default=50_000, help="of each rank, about")
    parser.add_argument("--layers", type=int, default=40)
    parser.add_argument("--without-rollups", action="store_true")
    parser.add_argument("--share", type=int, nargs=2, default=(0, 1), help="rank A, A + B, ...")
    parser.add_argument("--engine", default="duckdb", help="or spark")
    args = parser.parse_args()
    if args.what == "make":
        steps = max(args.events // len(GeneratedJob(1, 1, args.layers).template.nodes), 1)
        job = GeneratedJob(args.ranks, steps, args.layers)
        _write(job, args.folder, not args.without_rollups, args.share)
    elif args.what == "check":
        made = GeneratedJob(**json.loads((args.folder / _DESCRIPTION).read_text()))
        wrong = [*differences(Job(args.folder), made, args.engine)]
        for line in wrong:
            print("wrong:", line)
        print("everything agrees" if not wrong else f"{len(wrong)} things differ")
        sys.exit(bool(wrong))
    else:
        _measure(args.folder, args.engine)


def _write(job: GeneratedJob, folder: Path, rolled_up: bool, share: tuple[int, int]) -> None:
    """Write the ranks of a job, or every so manieth."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _DESCRIPTION).write_text(json.dumps(asdict(job)))
    first, of = share
    for rank in range(first, job.ranks, of):
        if (folder / Partition(RANK, rank).folder_name / MANIFEST).exists():
            continue
        trace = job.trace(rank)
        if rolled_up:
            trace.save(folder, rank=rank)
        else:
            save_part(trace, folder, Partition(RANK, rank))


def _measure(folder: Path, engine: str) -> None:
    print(f"{len(rank_folders(folder))} ranks, {os.cpu_count()} processors, "
          f"load {os.getloadavg()[0]:.1f}")  # fmt: skip
    for question in JobQuestion:
        args = ["--ask", question.value, "--format", "csv", "--engine", engine]
        print(f"{question.value}: {_run(['ranks', str(folder), *args])}", flush=True)
    print(f"stragglers: {_run(['ranks', str(folder), '--format', 'json'])}", flush=True)


def _run(arguments: list[str]) -> str:
    """What a command of opscope took; memory is that of the largest process so far."""
    began, before = time.perf_counter(), _processor_s()
    command = [sys.executable, "-m", "opscope", *arguments]
    code = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
    took_s, peak_kib = time.perf_counter() - began, _of_children().ru_maxrss
    took = f"{took_s:.1f} s on the clock, {_processor_s() - before:.1f} s of processors"
    return f"{took}, {peak_kib / 2**20:.2f} GiB{f', ended with {code}' if code else ''}"


def _processor_s() -> float:
    return _of_children().ru_utime + _of_children().ru_stime


def _of_children() -> resource.struct_rusage:
    return resource.getrusage(resource.RUSAGE_CHILDREN)


if __name__ == "__main__":
    main()
