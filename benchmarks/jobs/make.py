"""Write a generated job to disk:

    python -m benchmarks.jobs.make FOLDER [--ranks 64] [--events 50000] [--layers 40] [--seed 0]

Every rank is saved as programs save theirs, with its rollup, unless ``--without-rollups``. Ranks
that are there already are left, so that it can be interrupted and go on, also twice at a time.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from benchmarks.jobs.generated import GeneratedJob
from opscope.storage.manifest import MANIFEST
from opscope.storage.partition import RANK, Partition
from opscope.storage.store import save_part

DESCRIPTION = ".generated.json"


def job_of(folder: Path) -> GeneratedJob:
    """The job that a folder was written of."""
    return GeneratedJob(**json.loads((folder / DESCRIPTION).read_text()))


def steps_for(events: int, layers: int) -> int:
    """Steps of a rank that has about so many events."""
    return max(events // len(GeneratedJob(1, 1, layers).template.nodes), 1)


def write(job: GeneratedJob, folder: Path, rolled_up: bool, share: tuple[int, int]) -> None:
    """Write the ranks of a job, or every so manieth."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DESCRIPTION).write_text(json.dumps(asdict(job)))
    first, of = share
    for rank in range(first, job.ranks, of):
        if (folder / Partition(RANK, rank).folder_name / MANIFEST).exists():
            continue
        trace = job.trace(rank)
        if rolled_up:
            trace.save(folder, rank=rank)
        else:
            save_part(trace, folder, Partition(RANK, rank))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--events", type=int, default=50_000, help="of each rank, about")
    parser.add_argument("--layers", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without-rollups", action="store_true")
    parser.add_argument("--share", type=int, nargs=2, default=(0, 1), help="rank A, A + B, ...")
    asked = parser.parse_args()
    steps = steps_for(asked.events, asked.layers)
    job = GeneratedJob(asked.ranks, steps, asked.layers, asked.seed)
    write(job, asked.folder, not asked.without_rollups, tuple(asked.share))


if __name__ == "__main__":
    main()
