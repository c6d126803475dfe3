"""Stalls of known length and kind in a training loop: does the account of time name them?

``python -m benchmarks.stalls`` runs a small loop, makes some of its steps wait or work for another
reason, and compares what each such step has more of that cause than other steps with what was
injected. What a stall took is measured where it happens: by the processor's clock where it
computes, and else without what the thread waited for a processor, which is a cause of its own.
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib
import mmap
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import opscope
from opscope.analysis.account.account import Account
from opscope.columns.causes import Cause

_STALL_S = 0.03
_EVERY = 3
"""Steps from one stall to the next; those between say what a step is without."""

Stall = Callable[[int], float]
"""Makes the step of this number wait, and returns for how many seconds."""


def main() -> None:
    options = _parse()
    torch.set_num_threads(1)
    print("| kind | stalls | injected | under its cause |\n| --- | --: | --: | --: |")
    injected_in_all = found_in_all = 0.0
    for cause, stall in STALLS.items():
        if options.only and cause.name.lower() not in options.only:
            continue
        injected, found = measure(cause, stall, options.count)
        injected_in_all, found_in_all = injected_in_all + injected, found_in_all + found
        row = f"| {cause.title} | {options.count} | {injected:.2f} s | {found / injected:.1%} |"
        print(row, flush=True)
    print(f"\nIn all {found_in_all / max(injected_in_all, 1e-9):.1%} (target 95 %).")


def measure(cause: Cause, stall: Stall | None, count: int) -> tuple[float, float]:
    """Seconds that were injected, and of these found under the right cause."""
    step, batches = _training(), iter(_loader(count * _EVERY + 2))
    took: dict[int, float] = {}
    with opscope.profile(with_own_functions=True) as profile:
        for number in range(count * _EVERY + 1):
            is_stalled = number % _EVERY == _EVERY - 1
            with opscope.record_function(f"ProfilerStep#{number}"):
                if stall is None:
                    took_s = _seconds(lambda: step(next(batches)))
                else:
                    took_s = stall(number) if is_stalled else 0.0
                    step(torch.ones(64, 32))
            if is_stalled:
                took[number] = took_s
    return _compare(profile.trace.account(period="all"), cause, took, with_step=stall is None)


def _compare(
    account: Account, cause: Cause, took: dict[int, float], with_step: bool
) -> tuple[float, float]:
    of_cause = {
        int(number): row[cause] / 1e9
        for number, row in zip(account.steps.number, account.table(), strict=True)
    }
    usual = statistics.median(time for number, time in of_cause.items() if number not in took)
    plain = statistics.median(took.values()) if with_step else 0.0
    injected = found = 0.0
    for number, time_s in took.items():
        expected = min(time_s, plain) if with_step else time_s
        injected += expected
        found += min(max(of_cause[number] - usual, 0.0), expected)
    return injected, found


def _seconds(body: Callable[[], object]) -> float:
    begin, waited = time.perf_counter(), _waited()
    body()
    return time.perf_counter() - begin - (_waited() - waited)


def _computed(body: Callable[[], object]) -> float:
    begin = time.thread_time()
    body()
    return time.thread_time() - begin


def _waited() -> float:
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


def _training() -> Callable[[Tensor], None]:
    network = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)

    def step(batch: Tensor) -> None:
        optimizer.zero_grad()
        network(batch.reshape(-1, 32)).sum().backward()
        optimizer.step()

    return step


class _Slow(Dataset[Tensor]):
    """Of which every few items take long to make."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, number: int) -> Tensor:
        time.sleep(_STALL_S if number % _EVERY == _EVERY - 1 else 0)
        return torch.ones(64, 32)


def _loader(size: int) -> DataLoader[Tensor]:
    return DataLoader(_Slow(size), batch_size=None, num_workers=1, prefetch_factor=1)


def _python(_: int) -> float:
    def compute() -> None:
        until = time.thread_time() + _STALL_S
        while time.thread_time() < until:
            pass

    return _computed(compute)


def _garbage() -> Stall:
    objects = [[i] for i in range(300_000)]
    return lambda _: _computed(gc.collect) if objects else 0.0


def _import(number: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        name = f"stall_{os.getpid()}_{number}"
        Path(folder, f"{name}.py").write_text("for i in range(600_000):\n    i * i\n")
        sys.path.insert(0, folder)
        importlib.invalidate_caches()
        took_s = _computed(lambda: importlib.import_module(name))
        sys.path.remove(folder)
    return took_s


class _Beside:
    """A thread that is there before any step, so that no step waits for one to begin or end."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[Callable[[], object]] = SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self._asked.get()()

    def do(self, body: Callable[[], object]) -> None:
        self._asked.put(body)


@functools.cache
def _beside() -> _Beside:
    return _Beside()


def _lock(_: int) -> float:
    lock, held = threading.Lock(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            time.sleep(_STALL_S)

    _beside().do(hold)
    held.wait()
    return _seconds(lock.acquire)


def _gil(_: int) -> float:
    """The thread beside may lose it before its one call in C has begun: what counts is waiting."""
    done: list[int] = []

    def look() -> None:
        while not done:
            pass

    _beside().do(lambda: done.append(sum(range(2_000_000))))
    computed = time.thread_time()
    took_s = _seconds(look)
    return took_s - (time.thread_time() - computed)


def _pipe(_: int) -> float:
    reader, writer = os.pipe()

    def write() -> None:
        time.sleep(_STALL_S)
        os.write(writer, b"x")

    _beside().do(write)
    took_s = _seconds(lambda: os.read(reader, 1))
    os.close(reader)
    os.close(writer)
    return took_s


def _timer(_: int) -> float:
    return _seconds(lambda: time.sleep(_STALL_S))


def _memory(_: int) -> float:
    fresh = mmap.mmap(-1, 96 << 20)
    pages = torch.frombuffer(fresh, dtype=torch.uint8)[:: mmap.PAGESIZE]
    return _computed(lambda: pages.fill_(1))


def _descheduled(_: int) -> float:
    """Beside another process on the only processor that this thread may use."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    other = subprocess.Popen([sys.executable, "-c", "while 1: pass"])
    try:
        begin, before = time.perf_counter(), time.thread_time()
        while time.perf_counter() < begin + 4 * _STALL_S:
            pass
        return time.perf_counter() - begin - (time.thread_time() - before)
    finally:
        other.kill()
        other.wait()
        os.sched_setaffinity(0, allowed)


STALLS: dict[Cause, Stall | None] = {
    Cause.PYTHON: _python,
    Cause.COLLECTION: _garbage(),
    Cause.IMPORT: _import,
    Cause.LOADER: None,
    Cause.LOCK: _lock,
    Cause.GIL: _gil,
    Cause.IO: _pipe,
    Cause.TIMER: _timer,
    Cause.MEMORY: _memory,
    Cause.DESCHEDULED: _descheduled,
}
"""What is injected, by the cause that it should be found under; the loader's is in the data."""


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stalls", description=__doc__)
    names = [cause.name.lower() for cause in STALLS]
    parser.add_argument("--only", nargs="+", choices=names, help="some kinds only")
    parser.add_argument("--count", type=int, default=30, help="stalls of each kind")
    return parser.parse_args()


if __name__ == "__main__":
    main()
