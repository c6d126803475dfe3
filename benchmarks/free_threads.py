"""What recording a call costs a thread while others record theirs at the same time.

``python -m benchmarks.free_threads``, also where there is no torch. Processor time of the threads
themselves, so that it does not matter what else the machine does: by threads in turn, one and
several, not recorded and recorded.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

from opscope import _native
from opscope.columns.codes import Want

SPANS_A_TURN = 3
"""The function that is called, and two C functions."""


def _leaf(numbers: list[int]) -> int:
    return len(numbers)


def _turns(count: int) -> None:
    numbers: list[int] = []
    for _ in range(count):
        _leaf(numbers)
        numbers.count(1)


def _in_threads(threads: int, turns: int) -> float:
    """Processor time of a turn, in ns: the median thread's."""
    gate = threading.Barrier(threads)
    taken: list[float] = []

    def run() -> None:
        gate.wait()
        began = time.thread_time_ns()
        _turns(turns)
        taken.append((time.thread_time_ns() - began) / turns)

    started = [threading.Thread(target=run) for _ in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return statistics.median(taken)


def _recorded(measure: Callable[[], float]) -> float:
    window = _native.open_window(Want.PYTHON | Want.NEW_THREADS, True)
    try:
        return measure()
    finally:
        _native.close_window(window)
        _native.discard_window(window)


def main() -> None:
    """Print what a span costs, with one thread and with several."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--turns", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    _native.set_up_python("", "", "", None, None, None, None)
    costs: dict[int, list[float]] = {threads: [] for threads in asked.threads}
    plain: dict[int, list[float]] = {threads: [] for threads in asked.threads}
    for _ in range(asked.rounds):
        for threads in asked.threads:
            without = _in_threads(threads, asked.turns)
            recorded = _recorded(partial(_in_threads, threads, asked.turns))
            plain[threads].append(without)
            costs[threads].append((recorded - without) / SPANS_A_TURN)
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"Python {sys.version.split()[0]}, GIL {'on' if gil else 'off'}")
    first = statistics.median(costs[asked.threads[0]])
    for threads in asked.threads:
        cost = statistics.median(costs[threads])
        print(
            f"{threads} threads: {cost:.1f} ns a span ({min(costs[threads]):.1f} at least), "
            f"{cost / first:.2f} of {asked.threads[0]}; a turn not recorded "
            f"{statistics.median(plain[threads]):.1f} ns"
        )


if __name__ == "__main__":
    main()
