"""Memory per event, and ``python -m benchmarks.resident WORKLOAD PROFILER SETTING UNITS``."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
from collections.abc import Callable, Iterator

from benchmarks.figures import Figure
from benchmarks.isolation import in_fork, in_fresh_process
from benchmarks.rounds import Rounds
from benchmarks.sessions import count_events, new_profile
from benchmarks.workloads import WORKLOADS, Workload

TARGETS = {"default": 0.06, "all": 0.10}


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Resident memory that a recording has taken once it can be looked at."""
    for number, workload in enumerate(WORKLOADS):
        for setting, target in TARGETS.items():
            part = workload.scaled(max(rounds.share / 2, 0.2))
            yield _figure(number, part, setting, target, rounds)


def _figure(number: int, workload: Workload, setting: str, target: float, rounds: Rounds) -> Figure:
    def variant(profiler: str) -> Callable[[], dict[str, float]]:
        units = str(workload.units)
        return lambda: in_fresh_process(
            "benchmarks.resident", str(number), profiler, setting, units
        )

    name = f"resident memory after stop(), {'every option' if setting == 'all' else setting}"
    variants = {profiler: variant(profiler) for profiler in ("opscope", "torch")}
    taken = rounds.interleave(f"{name}, {workload.name}", variants, min(rounds.count, 2))
    events = in_fork(count_events, workload, "default") * workload.units
    per_event = {
        profiler: [result["stopped"] / events for result in results]
        for profiler, results in taken.items()
    }
    while_recording = {profiler: taken[profiler][0]["recording"] / events for profiler in taken}
    return Figure(
        name,
        workload.name,
        "bytes/operator",
        per_event["opscope"],
        per_event["torch"],
        target=target,
        note=f"while recording: {while_recording['opscope']:.0f}, torch.profiler "
        f"{while_recording['torch']:.0f}",
    )


def main(number: int, profiler: str, setting: str, units: int) -> dict[str, float]:
    """Bytes taken while recording, and stopped with the result at hand."""
    unit = WORKLOADS[number].build()
    unit()
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
    return {"recording": recording - before, "stopped": _resident_bytes() - before}


def _decode(profiled: object) -> None:
    """torch.profiler's stop() has decoded already; opscope decodes on the first look."""
    getattr(profiled, "trace", None)


def _resident_bytes() -> int:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what was freed is not counted, whoever freed it
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))))
