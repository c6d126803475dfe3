"""One program in a process of its own: ``python -m benchmarks.advice.child NAME``."""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import math
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

import opscope
from benchmarks.advice.program import PROGRAMS, Body

SUBJECTS = "everyday fields habits held_out loops python_time tensors training tuned unseen"
for _name in SUBJECTS.split():
    importlib.import_module(f"benchmarks.advice.{_name}")  # which lists its programs

_RECORDINGS = 3
"""Of which the one that promises neither most nor least counts: what else runs changes them all."""

_FEWEST_ROUNDS, _MOST_ROUNDS = 4, 30
_ENOUGH_SECONDS = 1.5
"""So long both are run in turn, before and after each recording."""
_NORMAL_95 = 1.96

_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of glibc's mallopt
_MOST_FINDINGS = 6


def main() -> None:
    program = PROGRAMS[sys.argv[1]]
    torch.manual_seed(0)
    if program.grows:
        # Blocks are given back to the system as soon as they are freed, which shows their size.
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1 << 16)
    torch.set_num_threads(1)  # threads that wait for each other on a busy machine measure that
    faulty, fixed = program.make()
    held = (_held_bytes(fixed), _held_bytes(faulty)) if program.grows else (0, 0)
    recorded, _ = program.make()
    recorded()  # what happens only once has happened
    times, found = _turns(faulty, fixed), []
    for _ in range(_RECORDINGS):
        found.append(_findings(recorded))
        times += _turns(faulty, fixed)
    json.dump({"real": _real(times, held), "found": found}, sys.stdout)


def _turns(faulty: Body, fixed: Body) -> list[tuple[float, float]]:
    """Seconds of the faulty one, and of the fixed one before and after it, in turn."""
    times: list[tuple[float, float]] = []
    begin, before = time.perf_counter(), _seconds(fixed)
    while len(times) < _FEWEST_ROUNDS or (
        len(times) < _MOST_ROUNDS and time.perf_counter() - begin < _ENOUGH_SECONDS
    ):
        took, after = _seconds(faulty), _seconds(fixed)
        times.append((took, (before + after) / 2))
        before = after
    return times


def _real(times: list[tuple[float, float]], held: tuple[int, int]) -> dict[str, float]:
    """What the fix saves: a share of the time, and bytes that are held when it is done.

    The share is the median over rounds, as what else the machine does is alike within one, with
    ``low`` and ``high`` of its 95 % interval, which assumes no distribution (order statistics).
    """
    shares = sorted(1 - after / before for before, after in times)
    outside = max(math.floor(len(shares) / 2 - _NORMAL_95 * math.sqrt(len(shares)) / 2), 0)
    return {
        "seconds": statistics.median(before for before, _ in times),
        "share": statistics.median(shares),
        "low": shares[outside],
        "high": shares[-1 - outside],
        "bytes": held[1] - held[0],
    }


def _seconds(body: Body) -> float:
    """Without what the program waited for a processor, which others had meanwhile."""
    gc.collect()
    begin, waited = time.perf_counter(), _waited()
    body()
    return time.perf_counter() - begin - (_waited() - waited)


def _waited() -> float:
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


def _held_bytes(body: Body) -> int:
    """How much more memory the process has once it has run, with its result still there."""
    body()
    before = _resident()
    result = body()
    after = _resident()
    del result
    return after - before


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def _findings(faulty: Body) -> dict[str, Any]:
    """The first of a recording, as JSON has them."""
    gc.collect()
    with opscope.profile(
        record_shapes=True, profile_memory=True, with_modules=True, with_stack=True
    ) as profile:
        result = faulty()
    del result
    found = profile.trace.findings().as_dict()
    found["findings"] = found["findings"][:_MOST_FINDINGS]
    return found


if __name__ == "__main__":
    main()
