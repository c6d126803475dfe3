"""Pauses that starting, stopping and dumping from outside make for a thread of the program.

``python -m benchmarks.pauses`` asks a program again and again, whose one thread does nothing but
run small operators and look at the clock. Between two looks it may have waited for a processor,
which is the machine's doing; for the GIL, which is ours, and what that took is what opscope's
threads computed meanwhile: the kernel counts both, whatever else the machine does. Where whoever
held the GIL waited for a processor itself, that is the machine's doing as well, so what one of them
waited is taken from it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import opscope
from opscope.cli.asked_trace import arguments_of
from opscope.control import client

_ACTIONS = ("nothing", "start", "stop", "dump")


def main() -> None:
    options = _parse()
    if options.folder:
        return _be_program(Path(options.folder))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        pauses = _measure(Path(folder), options.count)
    print("| asked for | times | longest pause in it: median | p99 | most |")
    print("| --- | --: | --: | --: | --: |")
    for action in _ACTIONS:
        of_it = np.array(pauses[action]) / 1e6
        p99 = np.quantile(of_it, 0.99)
        row = f"| {action} | {len(of_it)} | {np.median(of_it):.2f} ms | {p99:.2f} ms |"
        print(f"{row} {of_it.max():.2f} ms |")


def _measure(folder: Path, count: int) -> dict[str, list[int]]:
    """The longest pause in each action, as the program saw it."""
    command = [sys.executable, "-m", "benchmarks.pauses", "--folder", str(folder)]
    environment = {**os.environ, "OPSCOPE_CONTROL": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as program:
        assert program.stdout is not None
        program.stdout.readline()
        asked = [_ask(program.pid, action) for _ in range(count) for action in _ACTIONS]
        (folder / "end").touch()
        seen = json.loads(program.stdout.readline())
    at_ns, lost_ns = (np.array(column) for column in zip(*seen, strict=True))
    found: dict[str, list[int]] = {action: [] for action in _ACTIONS}
    for (begin_ns, end_ns), action in zip(asked, _ACTIONS * count, strict=True):
        inside = (at_ns >= begin_ns) & (at_ns <= end_ns)
        found[action].append(int(lost_ns[inside].max(initial=0)))
    return found


def _ask(process: int, action: str) -> tuple[int, int]:
    """From when until when the program was asked."""
    time.sleep(0.05)
    begin_ns = time.monotonic_ns()
    if action == "nothing":
        time.sleep(0.05)
    else:
        with client.connect(process, answer_s=60) as asking:
            if action == "start":
                asking.ask("start", recorded=arguments_of(frozenset()))
            elif action == "stop":
                asking.log_of("stop")
            else:
                asking.ask("dump", reason="")
    return begin_ns, time.monotonic_ns()


def _be_program(folder: Path) -> None:
    """Run operators and look at the clock; print when something was lost, and how much."""
    torch.set_num_threads(1)
    x, seen = torch.ones(4), []
    with opscope.flight_recorder("10s", directory=folder / "dumps", triggers=[], max_disk="9GiB"):
        print("ready", flush=True)
        own = threading.get_native_id()
        looked_ns = time.monotonic_ns()
        last = _counts(own)
        while not (folder / "end").exists():
            for _ in range(200):
                before_ns = time.monotonic_ns()
                x.add(1)  # waits for the GIL once; reading files would do so for each of them
                now_ns = time.monotonic_ns()
                if now_ns - before_ns > 200_000 or now_ns - looked_ns > 2_000_000:
                    counts, looked_ns = _counts(own), now_ns
                    less_ns = now_ns - before_ns - (counts.waited_ns - last.waited_ns)
                    less_ns -= counts.longest_wait_since(last)
                    computed_ns = counts.others_ns - last.others_ns
                    if now_ns - before_ns > 200_000:
                        seen.append((now_ns, max(min(less_ns, computed_ns), 0)))
                    last = counts
    print(json.dumps(seen), flush=True)


@dataclass(frozen=True)
class ThreadCounts:
    """Of this process, in nanoseconds.

    Attributes:
        waited_ns: by this thread, for a processor.
        others_ns: that all others computed.
        others_waited_ns: for a processor, by thread.
    """

    waited_ns: int
    others_ns: int
    others_waited_ns: dict[int, int]

    def longest_wait_since(self, last: ThreadCounts) -> int:
        """Of any other thread."""
        before = last.others_waited_ns
        waits = (ns - before.get(one, ns) for one, ns in self.others_waited_ns.items())
        return max(waits, default=0)


def _counts(own: int) -> ThreadCounts:
    others_ns = waited_ns = 0
    others_waited_ns = {}
    for thread, (computed, waited) in _of_all_threads():
        if thread == own:
            waited_ns = waited
        else:
            others_ns += computed
            others_waited_ns[thread] = waited
    return ThreadCounts(waited_ns, others_ns, others_waited_ns)


_files: dict[int, int] = {}


def _of_all_threads() -> Iterator[tuple[int, tuple[int, int]]]:
    for name in os.listdir("/proc/self/task"):
        thread = int(name)
        try:
            if thread not in _files:
                _files[thread] = os.open(f"/proc/self/task/{name}/schedstat", os.O_RDONLY)
            fields = os.pread(_files[thread], 100, 0).split()
            yield thread, (int(fields[0]), int(fields[1]))
        except OSError:  # it has ended
            os.close(_files.pop(thread, os.open(os.devnull, os.O_RDONLY)))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pauses", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="of each kind")
    parser.add_argument("--folder", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
