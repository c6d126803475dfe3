"""Memory per operator: ``python -m benchmarks.resident PROFILER SETTING UNITS``, and figures."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
from collections.abc import Callable, Iterator

from benchmarks.figures import Figure
from benchmarks.isolation import in_fresh_process
from benchmarks.rounds import Rounds
from benchmarks.workloads import SMALL_OPERATORS

TARGETS = {"default": 0.06, "all": 0.10}


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Resident memory that a recording has taken once it can be looked at."""
    units = str(SMALL_OPERATORS.scaled(rounds.share * 2).units)
    for setting, target in TARGETS.items():
        variants = {name: _variant(name, setting, units) for name in ("opscope", "torch")}
        name = "every option" if setting == "all" else setting
        taken = rounds.interleave(f"memory, {name}", variants, max(1, rounds.count // 2))
        yield Figure(
            f"resident memory after stop(), {name}",
            SMALL_OPERATORS.name,
            "bytes/operator",
            [result["stopped"] for result in taken["opscope"]],
            [result["stopped"] for result in taken["torch"]],
            target=target,
            note=f"while recording: {taken['opscope'][0]['recording']:.0f}, torch.profiler "
            f"{taken['torch'][0]['recording']:.0f}",
        )


def _variant(profiler: str, setting: str, units: str) -> Callable[[], dict[str, float]]:
    return lambda: in_fresh_process("benchmarks.resident", profiler, setting, units)


def main(profiler: str, setting: str, units: int) -> dict[str, float]:
    """Bytes per operator while recording, and stopped with the result at hand."""
    from benchmarks.sessions import new_profile

    unit = SMALL_OPERATORS.build()
    with new_profile(profiler, setting) as small:
        unit()
    _decode(small)
    del small
    before = _resident_bytes()
    profiled = new_profile(profiler, setting)
    profiled.start()
    for _ in range(units):
        unit()
    recording = _resident_bytes()
    profiled.stop()
    _decode(profiled)
    stopped = _resident_bytes()
    operators = units * 1000
    return {
        "recording": (recording - before) / operators,
        "stopped": (stopped - before) / operators,
    }


def _decode(profiled: object) -> None:
    """torch.profiler's stop() has decoded already; opscope decodes on the first look."""
    getattr(profiled, "trace", None)


def _resident_bytes() -> int:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what was freed is not counted, whoever freed it
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
