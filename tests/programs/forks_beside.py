"""Forks beside threads that run operators while something records: which children died or hung, and
whether the parent's recording has all that its threads counted.

Run as a program, it takes every kind of recording in turn: see ``--help``.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import select
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import torch

import opscope

EVERYTHING = {
    "record_shapes": True,
    "profile_memory": True,
    "with_stack": True,
    "with_modules": True,
}
KINDS = ("stream", "memory", "flight", "dumps", "profiles")
PATIENCE_S = 60
"""Far more than a child takes on a busy machine; only waited for in full if one hangs."""
_NESTED, _RECORDS = 10, 10
"""Of so many children one forks at once, and one records itself."""


def in_child(number: int) -> int:
    """What a child does before it leaves; its exit status."""
    if number % _NESTED == 1:
        grandchild = os.fork()
        return 0 if grandchild == 0 else os.waitpid(grandchild, 0)[1]
    if number % _RECORDS == 2:
        with opscope.profile(record_shapes=True, profile_memory=True) as own:
            torch.zeros(3)
            thread = threading.Thread(target=torch.zeros, args=(4,))
            thread.start()
            thread.join()
        names = [own.trace.event_name(row) for row in range(len(own.trace.events))]
        return int(names.count("aten::zeros") != 2 or "aten::add_" in names)
    return 0


def fork(number: int) -> str:
    """``"well"``, or how the child ended."""
    child = os.fork()
    if child == 0:
        status = 99
        try:
            status = in_child(number)
        finally:
            os._exit(min(status, 99))
    ended = os.pidfd_open(child)
    try:
        if not select.select([ended], [], [], PATIENCE_S)[0]:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(ended)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == -signal.SIGKILL:
        return "hung"
    return "well" if code == 0 else signal.Signals(-code).name if code < 0 else f"left by {code}"


class Work:
    """Threads that run operators and count them, until it ends."""

    def __init__(self, busy: int) -> None:
        self._ends = threading.Event()
        self.counts = [0] * busy
        self._threads = [threading.Thread(target=self._run, args=(i,)) for i in range(busy)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        x = torch.ones(2)
        while not self._ends.is_set():
            x.add_(1)
            self.counts[number] += 1

    def end(self) -> int:
        """How many operators there were."""
        self._ends.set()
        for thread in self._threads:
            thread.join()
        return sum(self.counts)


@contextlib.contextmanager
def repeating(work) -> Iterator[None]:
    """A thread that does the same again and again."""
    ends = threading.Event()

    def repeat() -> None:
        while not ends.is_set():
            work()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def _first_operator() -> None:
    """Of a thread: it takes locks that others do not."""
    thread = threading.Thread(target=torch.ones, args=(3,))
    thread.start()
    thread.join()


def _profile_once(options) -> None:
    with opscope.profile(**options) as short:
        torch.ones(2).sum()
    len(short.trace.events)


def _fly_once(folder: Path, dumps: bool) -> None:
    limits = {"max_memory": "16MiB", "max_disk": "4MiB", "triggers": [], "keeper": False}
    with opscope.flight_recorder("1s", directory=folder, **limits) as recorder:
        torch.ones(2).sum()
        if dumps:
            with contextlib.suppress(opscope.LifecycleError):  # one was made just now
                recorder.dump("again")


def one_round(kind: str, busy: int, options: dict[str, bool], forks: int) -> Counter[str]:
    """How the children of one recording ended; ``"missing"`` and ``"too many"``: operators."""
    folder = Path(tempfile.mkdtemp(prefix="opscope-forks-"))
    found: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        recording = None
        if kind in ("stream", "memory"):
            to = {"stream_to": folder / "t", "keeper": False} if kind == "stream" else {}
            recording = stack.enter_context(opscope.profile(**to, **options))
        elif kind == "profiles":
            stack.enter_context(repeating(lambda: _profile_once(options)))
        else:
            stack.enter_context(repeating(lambda: _profile_once(options)))
            stack.enter_context(repeating(lambda: _fly_once(folder, kind == "dumps")))
        stack.enter_context(repeating(_first_operator))
        work = Work(busy)
        for number in range(forks):
            found[fork(number)] += 1
        ran = work.end()
        if recording is not None:
            recording.stop()
            trace = opscope.load(folder / "t") if kind == "stream" else recording.trace
            recorded = Counter(trace.names[row] for row in trace.events["name"].tolist())
            missing = ran - recorded["aten::add_"]
            found["missing" if missing > 0 else "too many"] += abs(missing)
    return +found


def main() -> int:
    """Run what the command line asks for; the exit code says whether all ended well."""
    parser = argparse.ArgumentParser(prog="forks_beside", description=__doc__)
    parser.add_argument("--forks", type=int, default=1000, help="of each kind, in all")
    parser.add_argument("--per-round", type=int, default=200, help="of one recording")
    parser.add_argument("--seconds", type=float, default=3600, help="of each kind, at most")
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--busy", nargs="*", type=int, default=(1, 2, 3, 8), help="threads")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # a pool of threads does not live in a child
    _profile_once(EVERYTHING)  # modules imported meanwhile would be Python's own deadlock
    is_well = True
    for kind in arguments.kinds:
        ends: Counter[str] = Counter()
        end_s = time.monotonic() + arguments.seconds
        for busy, options in itertools.cycle(itertools.product(arguments.busy, ({}, EVERYTHING))):
            left = arguments.forks - ends.total()
            if left <= 0 or time.monotonic() > end_s:
                break
            ends += one_round(kind, busy, options, min(left, arguments.per_round))
        print(f"{kind}: {dict(ends)}", flush=True)
        is_well = is_well and ends.keys() == {"well"}
    return int(not is_well)


if __name__ == "__main__":
    raise SystemExit(main())
