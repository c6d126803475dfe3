"""Reading a Chrome file of torch.profiler's, and ``python -m benchmarks.importing READER FILE``."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy  # noqa: F401 (what reading takes is measured above it)

import opscope
from benchmarks.figures import Figure, median_of
from benchmarks.isolation import in_fresh_process
from benchmarks.rounds import Rounds

_FILE_BYTES = 200_000_000
_SECONDS_PER_GB = 1000 / 60
"""At least 60 MB a second of one processor."""
_MEMORY_PER_BYTE = 1.5

_BETWEEN_NS = 1000
_TIME = re.compile(r'"ts": (\d+)\.(\d{3})')
_IDS = re.compile(r'"(External id|Python id|Python parent id|Sequence number)": (\d+)')
_IDS_APART = 1_000_000
_EVENTS = '"traceEvents": ['


def measure(rounds: Rounds) -> Iterator[Figure]:
    """CPU time and memory for files of 200 MB, against ``json`` of the standard library."""
    from benchmarks.sessions import temporary_path

    for setting in ("default", "shapes", "all"):
        with temporary_path("trace.json") as path:
            size = write_large_file(path, setting, int(_FILE_BYTES * rounds.share))
            yield from _figures(path, setting, size, rounds)


def _figures(path: str, setting: str, size: int, rounds: Rounds) -> Iterator[Figure]:
    def variant(reader: str) -> Callable[[], dict[str, float]]:
        return lambda: in_fresh_process("benchmarks.importing", reader, path)

    name = f"reading a Chrome file, {setting}"
    readers = {reader: variant(reader) for reader in ("opscope", "json")}
    taken = rounds.interleave(name, readers, rounds.few)
    seconds = {reader: [one["cpu_s"] for one in results] for reader, results in taken.items()}
    speed = size / 1e6 / median_of(seconds["opscope"])
    yield Figure(
        name,
        f"{size / 1e6:,.0f} MB of torch.profiler's",
        "s/GB of CPU",
        [one * 1e9 / size for one in seconds["opscope"]],
        [one * 1e9 / size for one in seconds["json"]],
        compared_with="json.load alone",
        limit=_SECONDS_PER_GB,
        note=f"{speed:,.0f} MB/s of one processor, {taken['opscope'][0]['events']:,.0f} events",
    )
    memory = {reader: [one["peak"] / size for one in found] for reader, found in taken.items()}
    yield Figure(
        f"{name}, peak memory",
        f"{size / 1e6:,.0f} MB of torch.profiler's",
        "bytes/byte",
        memory["opscope"],
        memory["json"],
        compared_with="json.load alone",
        limit=_MEMORY_PER_BYTE,
    )


def write_large_file(path: str, setting: str, size_bytes: int) -> int:
    """Write what torch.profiler says of a short training, over and over, each time later.

    Returns:
        How many bytes that are.
    """
    from benchmarks.sessions import new_profile
    from benchmarks.workloads import TRAINING

    unit = TRAINING.build()
    with new_profile("torch", setting) as profiled:
        for _ in range(20):
            unit()
    profiled.export_chrome_trace(path)
    text = Path(path).read_text()
    begin = text.index(_EVENTS) + len(_EVENTS)
    end = text.rindex("]")
    events = text[begin:end]
    times = [int(whole) * 1000 + int(rest) for whole, rest in _TIME.findall(events)]
    lasted_ns = max(times) - min(time for time in times if time) + _BETWEEN_NS
    with open(path, "w") as file:
        written = file.write(text[:begin] + events)
        number = 0
        while written < size_bytes:
            number += 1
            written += file.write("," + _later(events, number, lasted_ns))
        written += file.write(text[end:])
    return os.path.getsize(path)


def _later(events: str, number: int, lasted_ns: int) -> str:
    def shifted(found: re.Match[str]) -> str:
        moment = int(found[1]) * 1000 + int(found[2]) + number * lasted_ns
        return f'"ts": {moment // 1000}.{moment % 1000:03d}'

    def renumbered(found: re.Match[str]) -> str:
        return f'"{found[1]}": {int(found[2]) + number * _IDS_APART}'

    return _IDS.sub(renumbered, _TIME.sub(shifted, events))


def main(reader: str, path: str) -> dict[str, float]:
    """CPU seconds, and bytes at the fullest moment above what was there before."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _status_bytes("VmRSS")
    began = time.process_time()
    result = _READERS[reader](path)
    cpu_s = time.process_time() - began
    events = len(result.events) if isinstance(result, opscope.Trace) else 0
    return {"cpu_s": cpu_s, "peak": _status_bytes("VmHWM") - before, "events": events}


def _load_json(path: str) -> Any:
    with open(path, "rb") as file:
        return json.load(file)


_READERS: dict[str, Callable[[str], Any]] = {"opscope": opscope.load, "json": _load_json}


def _status_bytes(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2])))
