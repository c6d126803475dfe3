"""The program that dies: threads that do what can be counted, until one of them, or all, end."""

import ctypes
import os
import random
import signal
import threading
import time
from pathlib import Path

import torch

import opscope
from deaths.counts import ALLOCATIONS, OPERATORS, THREADS, UNITS_BEGUN, UNITS_ENDED

OPTIONS = {
    "record_shapes": True,
    "profile_memory": True,
    "with_modules": True,
    "with_stack": True,
    "record_outputs": True,
    "with_asyncio": True,
}

SIGNALS = {
    "SIGKILL": signal.SIGKILL,
    "SIGSEGV": signal.SIGSEGV,
    "SIGABRT": signal.SIGABRT,
    "SIGBUS": signal.SIGBUS,
    "SIGILL": signal.SIGILL,
    "SIGFPE": signal.SIGFPE,
    "SIGTERM": signal.SIGTERM,
    "SIGQUIT": signal.SIGQUIT,
}

BY_ITSELF = {
    **{
        name: (lambda number=number: os.kill(os.getpid(), number))
        for name, number in SIGNALS.items()
    },
    "_exit": lambda: os._exit(7),
    "exec": lambda: os.execv("/bin/true", ["true"]),
    "wild pointer": lambda: ctypes.string_at(1),
    "abort in C": lambda: ctypes.CDLL(None).abort(),
    "last thread": lambda: ctypes.CDLL(None).syscall(231, 9),  # exit_group, past the C library
}
"""Ends that a thread of the program brings about."""

FROM_OUTSIDE = "killed from outside"
WAYS = (*BY_ITSELF, FROM_OUTSIDE)


def die(folder: Path, counts, way: str, seed: int) -> None:
    """Record, work and die in ``way``; never returns. In a process of its own."""
    chance = random.Random(seed)
    for number in SIGNALS.values():
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
    torch.set_num_threads(1)
    some = {name: True for name in OPTIONS if chance.random() < 0.7}
    profile = opscope.profile(stream_to=folder, keeper=False, **some)
    profile.start()
    for thread in range(1, THREADS):
        threading.Thread(target=_work, args=(counts.rows[thread], thread), daemon=True).start()
    if way != FROM_OUTSIDE:
        killer = chance.randrange(THREADS)
        after = chance.expovariate(1 / 300)
        if killer != 0:
            threading.Thread(target=_kill_after, args=(counts, after, way), daemon=True).start()
            after = None
    else:
        after = None
    _work(counts.rows[0], 0, after, way)


def _work(row, thread, dies_after=None, way=""):
    unit, ones, model = f"unit of {thread}", torch.ones(3), torch.nn.Linear(3, 3)
    done = 0
    while dies_after is None or done < dies_after:
        with opscope.record_function(unit):
            row[UNITS_BEGUN] += 1
            result = torch.neg(ones)
            row[OPERATORS] += 1
            row[ALLOCATIONS] += 1
            del result
            if done % 10 == 0:
                model(ones)
            elif done % 33 == 0:
                _deep(ones, 20)
        row[UNITS_ENDED] += 1
        done += 1
    BY_ITSELF[way]()


def _deep(ones, depth):
    with opscope.record_function(f"depth {depth}"):
        if depth:
            _deep(ones, depth - 1)
        else:
            torch.stack([ones] * 200)


def _kill_after(counts, units, way):
    while counts.rows[0, UNITS_ENDED] < units:
        time.sleep(0)
    BY_ITSELF[way]()
