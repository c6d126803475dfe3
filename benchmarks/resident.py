"""Memory per event, and ``python -m benchmarks.resident PROFILER WORKLOAD SETTING UNITS``."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.figures import Figure
from benchmarks.isolation import in_fork
from benchmarks.rounds import Rounds
from benchmarks.sessions import count_events, new_profile
from benchmarks.workloads import WORKLOADS

TARGETS = {"default": 0.06, "all": 0.10}


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Resident memory that a recording has taken once it can be looked at."""
    for number in range(len(WORKLOADS)):
        for setting, target in TARGETS.items():
            yield _figure(number, setting, target, rounds)


def _figure(number: int, setting: str, target: float, rounds: Rounds) -> Figure:
    workload = WORKLOADS[number].scaled(max(rounds.share / 2, 0.2))

    def in_fresh_process(profiler: str) -> dict[str, float]:
        given = [profiler, str(number), setting, str(workload.units)]
        command = [sys.executable, "-m", "benchmarks.resident", *given]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        taken: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return taken

    name = f"resident memory after stop(), {'every option' if setting == 'all' else setting}"
    title, who = f"{name}, {workload.name}", ("opscope", "torch")
    taken = rounds.interleave(title, who, in_fresh_process, min(rounds.count, 2))
    events = in_fork(count_events, workload, "default") * workload.units
    ours, theirs = ([one["stopped"] / events for one in taken[profiler]] for profiler in who)
    recording = [taken[profiler][0]["recording"] / events for profiler in who]
    note = "while recording: {:.0f}, torch.profiler {:.0f}".format(*recording)
    return Figure(name, workload.name, "bytes/operator", ours, theirs, target=target, note=note)


def main(profiler: str, number: int, setting: str, units: int) -> dict[str, float]:
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
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))))
