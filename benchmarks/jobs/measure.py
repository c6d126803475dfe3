"""What questions about a job take: seconds, and memory at its peak, each in a process of its own:

    python -m benchmarks.jobs.measure FOLDER [--engines duckdb,spark] [--cold 200] [--forget]

Of every question the time from the start of `opscope job` to its end, and the memory that it and
all its children had at a time. ``--cold N`` measures what it takes without rollups, of the first N
ranks: each question, which adds up what it needs, and `opscope rollup`, which does so to stay.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from opscope.jobs.questions.questions import JobQuestion
from opscope.storage.manifest import rank_folders

_LOOK_EVERY_S = 0.05


@dataclass(frozen=True)
class Took:
    """What a command took; of processors without the virtual machine of Spark."""

    seconds: float
    processor_s: float
    peak_bytes: int
    code: int

    def __str__(self) -> str:
        failed = f", ended with {self.code}" if self.code else ""
        took = f"{self.seconds:.1f} s on the clock, {self.processor_s:.1f} s of processors"
        return f"{took}, {self.peak_bytes / 2**30:.2f} GiB{failed}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engines", default="duckdb", help="empty for none")
    parser.add_argument("--cold", type=int, default=0, help="ranks of which to measure it cold")
    parser.add_argument("--forget", action="store_true", help="have the files read from the disk")
    parser.add_argument("--rounds", type=int, default=1)
    asked = parser.parse_args()
    print(f"{len(rank_folders(asked.folder))} ranks, {os.cpu_count()} processors, load "
          f"{os.getloadavg()[0]:.1f}")  # fmt: skip
    for engine in filter(None, asked.engines.split(",")):
        for question in JobQuestion:
            for _ in range(asked.rounds):
                if asked.forget:
                    forget_files(asked.folder)
                said = ["job", question.value, str(asked.folder), "--format", "csv"]
                print(f"{engine} {question.value}: {run([*said, '--engine', engine])}", flush=True)
    said = ["stragglers", str(asked.folder), "--format", "json"]
    print(f"stragglers: {run(said)}", flush=True)
    if asked.cold:
        with without_rollups(asked.folder, asked.cold) as folder:
            for question in JobQuestion:
                if asked.forget:
                    forget_files(folder)
                said = ["job", question.value, str(folder), "--format", "csv"]
                print(f"{asked.cold} ranks cold, {question.value}: {run(said)}", flush=True)
            print(f"{asked.cold} ranks, opscope rollup: {run(['rollup', str(folder)])}", flush=True)


def run(arguments: list[str]) -> Took:
    """Run one command of opscope, and watch it and all that it begins."""
    began, before = time.perf_counter(), _processor_s()
    process = subprocess.Popen(
        [sys.executable, "-m", "opscope", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    peak, root = 0, psutil.Process(process.pid)
    while process.poll() is None:
        peak = max(peak, _in_use(root))
        time.sleep(_LOOK_EVERY_S)
    took_s = time.perf_counter() - began
    return Took(took_s, _processor_s() - before, peak, process.returncode)


def _processor_s() -> float:
    """Of all that this process began, and that has ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _in_use(root: psutil.Process) -> int:
    found = 0
    with suppress(psutil.Error):
        for one in (root, *root.children(recursive=True)):
            with suppress(psutil.Error):
                found += one.memory_info().rss
    return found


def forget_files(folder: Path) -> None:
    """Have the kernel drop what it keeps of the files."""
    for file in folder.glob("*/*"):
        with open(file, "rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def without_rollups(folder: Path, ranks: int) -> Iterator[Path]:
    """A folder with the traces of some ranks alone, by links."""
    with tempfile.TemporaryDirectory(prefix="opscope-cold-") as place:
        for rank, part in sorted(rank_folders(folder).items())[:ranks]:
            bare = Path(place) / f"rank={rank:05d}"
            bare.mkdir()
            for file in part.iterdir():
                if not file.name.startswith("rollup"):
                    (bare / file.name).symlink_to(file.absolute())
        yield Path(place)


if __name__ == "__main__":
    main()
