"""Pauses that starting, stopping and dumping from outside make for a thread of the program.

``python -m benchmarks.pauses`` asks a program again and again, whose one thread does nothing but
run small operators and look at the clock, beside others that wait somewhere deep in their functions
(``--waiting``, ``--depth``). Between two looks it may have waited for a processor, or
had one that the host took away, which is the machine's doing; or it slept, and that is for the GIL,
which is ours. The kernel counts how often a thread gave up its processor by itself: where it did
not, it did not sleep. It counts how long a thread ran and waited for a processor, too, so what is
left of the time is what it slept; no more than opscope's threads computed meanwhile. Where whoever
held the GIL waited for a processor itself, that is the machine's doing as well, so what one of them
waited is taken from it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
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
from opscope.live.control import client

_ACTIONS = ("nothing", "start", "stop", "dump")


def main() -> None:
    options = _parse()
    if options.folder:
        return _be_program(Path(options.folder), options.waiting, options.depth)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        pauses = _measure(Path(folder), options)
    print("| asked for | times | longest pause in it: median | p99 | most |")
    print("| --- | --: | --: | --: | --: |")
    for action in _ACTIONS:
        of_it = np.array(pauses[action]) / 1e6
        p99 = np.quantile(of_it, 0.99)
        row = f"| {action} | {len(of_it)} | {np.median(of_it):.2f} ms | {p99:.2f} ms |"
        print(f"{row} {of_it.max():.2f} ms |")


def _measure(folder: Path, options: argparse.Namespace) -> dict[str, list[int]]:
    """The longest pause in each action, as the program saw it."""
    count = options.count
    command = [sys.executable, "-m", "benchmarks.pauses", "--folder", str(folder)]
    command += ["--waiting", str(options.waiting), "--depth", str(options.depth)]
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


def _wait_in(functions: int) -> None:
    if functions > 1:
        return _wait_in(functions - 1)
    threading.Event().wait()


def _be_program(folder: Path, waiting: int, depth: int) -> None:
    """Run operators and look at the clock; print when something was lost, and how much."""
    torch.set_num_threads(1)
    for _ in range(waiting):
        threading.Thread(target=_wait_in, args=(depth,), daemon=True).start()
    x, seen = torch.ones(4), []
    with opscope.flight_recorder("10s", directory=folder / "dumps", triggers=[], max_disk="9GiB"):
        print("ready", flush=True)
        own = threading.get_native_id()
        looked_ns = time.monotonic_ns()
        last = _counts(own)
        while not (folder / "end").exists():
            for _ in range(200):
                sleeps, before_ns = _sleeps(), time.monotonic_ns()
                x.add(1)  # waits for the GIL once; reading files would do so for each of them
                now_ns = time.monotonic_ns()
                if now_ns - before_ns > 200_000 or now_ns - looked_ns > 2_000_000:
                    slept = _sleeps() > sleeps
                    counts = _counts(own)
                    if now_ns - before_ns > 200_000 and slept:
                        slept_ns = now_ns - looked_ns - counts.had_or_waited_since(last)
                        slept_ns = min(slept_ns, now_ns - before_ns)
                        slept_ns -= counts.longest_wait_since(last)
                        computed_ns = counts.others_ns - last.others_ns
                        seen.append((now_ns, max(min(slept_ns, computed_ns), 0)))
                    last, looked_ns = counts, now_ns
    print(json.dumps(seen), flush=True)


def _sleeps() -> int:
    """How often this thread has given up its processor by itself."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


@dataclass(frozen=True)
class ThreadCounts:
    """Of this process, in nanoseconds.

    Attributes:
        ran_ns: by this thread.
        waited_ns: by this thread, for a processor.
        others_ns: that all others computed.
        others_waited_ns: for a processor, by thread.
    """

    ran_ns: int
    waited_ns: int
    others_ns: int
    others_waited_ns: dict[int, int]

    def had_or_waited_since(self, last: ThreadCounts) -> int:
        """A processor, by this thread."""
        return self.ran_ns + self.waited_ns - last.ran_ns - last.waited_ns

    def longest_wait_since(self, last: ThreadCounts) -> int:
        """Of any other thread."""
        before = last.others_waited_ns
        waits = (ns - before.get(one, ns) for one, ns in self.others_waited_ns.items())
        return max(waits, default=0)


def _counts(own: int) -> ThreadCounts:
    others_ns = ran_ns = waited_ns = 0
    others_waited_ns = {}
    for thread, (computed, waited) in _of_all_threads():
        if thread == own:
            ran_ns, waited_ns = computed, waited
        else:
            others_ns += computed
            others_waited_ns[thread] = waited
    return ThreadCounts(ran_ns, waited_ns, others_ns, others_waited_ns)


_files: dict[int, int] = {}


def _of_all_threads() -> Iterator[tuple[int, tuple[int, int]]]:
    for name in os.listdir("/proc/self/task"):
        thread = int(name)
        try:
            if thread not in _files:
                _files[thread] = os.open(f"/proc/self/task/{name}/schedstat", os.O_RDONLY)
            waited_ns = int(os.pread(_files[thread], 100, 0).split()[1])
            yield thread, (_ran_ns(thread), waited_ns)
        except OSError:  # it has ended
            os.close(_files.pop(thread, os.open(os.devnull, os.O_RDONLY)))


def _ran_ns(thread: int) -> int:
    """Up to now; what the kernel's files say of a thread that runs may be a tick old.

    Raises:
        OSError: it has ended.
    """
    processor_clock = ~thread << 3 | 6  # as pthread_getcpuclockid(3) makes it
    return time.clock_gettime_ns(processor_clock)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pauses", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="of each kind")
    parser.add_argument("--waiting", type=int, default=16, help="threads that only wait")
    parser.add_argument("--depth", type=int, default=40, help="functions that each of them is in")
    parser.add_argument("--folder", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
