"""``python -m benchmarks.gpu``: what recording a GPU costs.

Programs of ``tests/gpu`` run plain, under opscope and under torch.profiler, in turn. Printed are
the median time of a run while recording, the device's included; what decoding a million kernels
takes; and how long a step takes before and after a recording. Needs an NVIDIA GPU; ``--device cpu``
only tries the benchmark itself out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it logs every start and stop

import torch
from rich.console import Console
from rich.table import Table
from tests.gpu.programs import PROGRAMS, Program, tiny_kernels, wait_for

import opscope

_MOST_OF_TORCHS = 0.5
_LAUNCH_BOUND = "launch-bound loop of tiny kernels"

_VARIANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "plain": nullcontext,
    "opscope": opscope.profile,
    "torch.profiler": torch.profiler.profile,
}


def main() -> None:
    """Measure and print.

    Raises:
        SystemExit: torch sees no GPU, or recording costs too much.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--kernels", type=int, default=1_000_000)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--json", type=Path, help="write the figures, and what is wrong, there")
    options = parser.parse_args()
    device = options.device
    if device == "cuda" and not torch.cuda.is_available():
        sys.exit("torch sees no GPU here: run this on a machine with one")
    where = torch.cuda.get_device_name() if device == "cuda" else "no GPU: a rehearsal"
    console = Console(width=160)
    console.print(f"{where}, torch {torch.__version__}")
    figures: dict[str, Any] = {"wrong": []}

    def write() -> None:  # after every part: the next may be stopped
        if options.json:
            options.json.write_text(json.dumps(figures))

    figures["decoded_s"] = _decoding_s(device, options.kernels)
    console.print(f"{options.kernels:,} launches decoded in {figures['decoded_s']:.2f} s")
    write()
    figures["around_s"] = before, after, again = _around_recording(device)
    console.print(
        f"a step before recording {before * 1000:.3f} ms, after it {after * 1000:.3f} ms, and "
        f"{again * 1000:.3f} ms measured again"
    )
    programs = {name: make(device) for name, make in PROGRAMS.items()}
    table = Table("program", *_VARIANTS, "share of torch's overhead", "opscope, torch stop")
    figures["costs_s"] = {}
    for name, program in programs.items():
        runs, stops = _measure(program, device, options.rounds)
        plain, ours, theirs = (runs[variant] for variant in _VARIANTS)
        share = (ours - plain) / (theirs - plain) if theirs > plain else None
        figures["costs_s"][name] = {**runs, "share of torch's": share, "stops": stops}
        if device == "cuda" and name == _LAUNCH_BOUND and not (share or 0) <= _MOST_OF_TORCHS:
            figures["wrong"].append(f"{name}: recording costs {share:.2f} of torch.profiler's")
        times = (plain, ours, theirs, stops["opscope"], stops["torch.profiler"])
        *ran, ours_stops, theirs_stops = (f"{value * 1000:.3f} ms" for value in times)
        text = "" if share is None else f"{share:.2f}"
        table.add_row(name, *ran, text, f"{ours_stops}, {theirs_stops}")
        write()
    console.print(table)
    sys.exit("\n".join(f"WRONG: {one}" for one in figures["wrong"]) or None)


def _measure(
    program: Program, device: str, rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Median seconds of a run, and of leaving the profiler, by variant."""
    for make in _VARIANTS.values():  # once, so that nothing is loaded or compiled in a measurement
        _seconds(program, device, make)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in _VARIANTS}
    for _ in range(rounds):
        for name, make in _VARIANTS.items():
            times[name].append(_seconds(program, device, make))
    runs = {name: statistics.median(run for run, _ in both) for name, both in times.items()}
    stops = {name: statistics.median(stop for _, stop in both) for name, both in times.items()}
    return runs, stops


def _seconds(
    program: Program, device: str, make: Callable[[], AbstractContextManager[Any]]
) -> tuple[float, float]:
    with make():
        wait_for(device)
        start = time.perf_counter()
        program()
        wait_for(device)
        ran = time.perf_counter()
    return ran - start, time.perf_counter() - ran


def _decoding_s(device: str, kernels: int) -> float:
    program = tiny_kernels(device, kernels)
    with opscope.profile() as prof:
        program()
    start = time.perf_counter()
    len(prof.trace.events)
    return time.perf_counter() - start


def _around_recording(device: str) -> tuple[float, float, float]:
    """Seconds of a step before a recording, and twice after it."""
    step = tiny_kernels(device)
    _measure_plain(step, device)
    before = _measure_plain(step, device)
    with opscope.profile():
        step()
    return before, _measure_plain(step, device), _measure_plain(step, device)


def _measure_plain(program: Program, device: str) -> float:
    return statistics.median(_seconds(program, device, nullcontext)[0] for _ in range(50))


if __name__ == "__main__":
    main()
