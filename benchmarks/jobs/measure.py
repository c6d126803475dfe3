"""What questions about a job take: seconds, and memory at its peak, each in a process of its own:

    python -m benchmarks.jobs.measure FOLDER [--engines duckdb,spark]

Of every question the time from the start of `opscope ranks --ask` to its end, and the memory
that it and all its children had at a time.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from contextlib import suppress
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
    asked = parser.parse_args()
    print(f"{len(rank_folders(asked.folder))} ranks, {os.cpu_count()} processors, load "
          f"{os.getloadavg()[0]:.1f}")  # fmt: skip
    for engine in filter(None, asked.engines.split(",")):
        for question in JobQuestion:
            said = ["ranks", "--ask", question.value, str(asked.folder), "--format", "csv"]
            print(f"{engine} {question.value}: {run([*said, '--engine', engine])}", flush=True)
    said = ["ranks", str(asked.folder), "--format", "json"]
    print(f"stragglers: {run(said)}", flush=True)


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


if __name__ == "__main__":
    main()
