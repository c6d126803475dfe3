"""Forks beside threads that run operators, begin, end and profile: each child records its own.

Run as a program with the number of forks and of seconds at most; says how many hung or failed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import torch

import opscope

EVERYTHING = {
    "record_shapes": True,
    "profile_memory": True,
    "with_stack": True,
    "with_modules": True,
}
OPTIONS = (EVERYTHING, {"profile_memory": True}, {})
PATIENCE_S = (
    30  # Far more than a child takes on a busy machine; only ever waited for in full if one hangs.
)


def load(stop: threading.Event) -> list[threading.Thread]:
    """Threads that take every lock there is."""

    def operators() -> None:
        while not stop.is_set():
            torch.ones(50) + 1

    def first_operators() -> None:
        while not stop.is_set():
            thread = threading.Thread(target=torch.ones, args=(3,))
            thread.start()
            thread.join()

    def profiles() -> None:
        while not stop.is_set():
            with opscope.profile(profile_memory=True) as prof:
                torch.ones(3)
            len(prof.trace.events)

    threads = [
        threading.Thread(target=work) for work in (operators, operators, first_operators, profiles)
    ]
    for thread in threads:
        thread.start()
    return threads


def in_child(options: dict[str, bool]) -> bool:
    """Record in this thread and in a new one, and have exactly that."""
    torch.ones(3).sum()
    with opscope.profile(**options) as mine:
        torch.zeros(3)
        thread = threading.Thread(target=torch.zeros, args=(4,))
        thread.start()
        thread.join()
    trace = mine.trace
    found = [trace.event_name(row) for row in range(len(trace.events))]
    return found.count("aten::zeros") == 2 and "aten::ones" not in found


def fork(options: dict[str, bool]) -> str:
    """``"well"``, ``"failed"`` or ``"hung"``: how a child ended that was forked in a recording."""
    with opscope.profile(**options):
        child = os.fork()
        if child == 0:
            well = False
            try:
                well = in_child(options)
            finally:
                os._exit(0 if well else 1)
    give_up = time.monotonic() + PATIENCE_S
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > give_up:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "hung"
        time.sleep(0.001)
    return "well" if ended[1] == 0 else "failed"


def main(forks: int, seconds: float) -> int:
    """Fork until one of the limits is met; the exit code says whether all ended well."""
    torch.set_num_threads(1)  # a pool of threads does not live in a child
    with opscope.profile(
        **EVERYTHING
    ) as first:  # modules imported meanwhile would be Python's own deadlock
        torch.ones(1)
    len(first.trace.events)
    ends = {"well": 0, "failed": 0, "hung": 0}
    stop = threading.Event()
    threads = load(stop)
    finish = time.monotonic() + seconds
    for number in range(forks):
        ends[fork(OPTIONS[number % len(OPTIONS)])] += 1
        if time.monotonic() > finish:
            break
    stop.set()
    for thread in threads:
        thread.join()
    print(ends)
    return int(ends["failed"] + ends["hung"] > 0 or ends["well"] == 0)


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), float(sys.argv[2])))
