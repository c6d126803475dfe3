"""Run a program as ``python`` would, and note what it could see at its end: COUNTER FILE PROGRAM.

It is the program that runs, plain or recorded, so that both runs have it.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import runpy
import sys
import threading


def main() -> None:
    """Write operators by name, threads and descriptors, however the program ends."""
    library, file = sys.argv[1:3]
    import numpy as np
    import torch  # which the counter is linked to

    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    counter = ctypes.CDLL(library)
    counter.counted.restype = ctypes.c_char_p
    process = os.getpid()
    counter.begin_counting()
    try:
        _run(sys.argv[3:])
    finally:
        if os.getpid() == process:
            counted = counter.counted().decode().splitlines()
            seen = {
                "operators": {name: int(n) for name, n in (line.split("\t") for line in counted)},
                "threads": sorted(thread.name for thread in threading.enumerate()),
                "descriptors": _descriptors(),
            }
            with open(file, "w") as out:
                json.dump(seen, out)


def _run(program: list[str]) -> None:
    if program[0] == "-m":
        sys.argv = program[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = program
        sys.path[0] = os.path.dirname(program[0])
        runpy.run_path(program[0], run_name="__main__")


def _descriptors() -> list[str]:
    """What the open ones point to."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:  # of the listing itself
            continue
    return sorted(found)


if __name__ == "__main__":
    main()
