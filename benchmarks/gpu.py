"""``python -m benchmarks.gpu``: what recording a GPU costs, against torch.profiler.

Programs of ``tests/gpu`` run plain, under opscope and under torch.profiler, in turn; compared
is the median time of a run, the device's included, while recording. Needs an NVIDIA GPU.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from tests.gpu.programs import graph_replay, tiny_kernels, transformer

import opscope

PROGRAMS: dict[str, Callable[[], Callable[[], None]]] = {
    "launch-bound loop of tiny kernels": tiny_kernels,
    "CUDA graph replays": graph_replay,
    "transformer training steps": transformer,
}


def main() -> None:
    """Measure and print.

    Raises:
        SystemExit: torch sees no GPU.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    if not torch.cuda.is_available():
        sys.exit("torch sees no GPU here: run this on a machine with one")
    table = Table(title=f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for heading in ("program", "plain", "opscope", "torch.profiler", "share of torch's overhead"):
        table.add_column(heading, justify="left" if heading == "program" else "right")
    for name, make in PROGRAMS.items():
        table.add_row(name, *_figures(measure(make(), rounds)))
    Console().print(table)


def measure(program: Callable[[], None], rounds: int) -> dict[str, float]:
    """Median seconds of a run of ``program``, by variant."""
    variants: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        "plain": nullcontext,
        "opscope": opscope.profile,
        "torch": torch.profiler.profile,
    }
    for make in variants.values():  # once, so that nothing is loaded or compiled in a measurement
        _seconds(program, make)
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, make in variants.items():
            times[name].append(_seconds(program, make))
    return {name: statistics.median(values) for name, values in times.items()}


def _seconds(program: Callable[[], None], make: Callable[[], AbstractContextManager[Any]]) -> float:
    with make():
        torch.cuda.synchronize()
        start = time.perf_counter()
        program()
        torch.cuda.synchronize()
        return time.perf_counter() - start


def _figures(medians: dict[str, float]) -> list[str]:
    plain, ours, theirs = medians["plain"], medians["opscope"], medians["torch"]
    share = (ours - plain) / (theirs - plain) if theirs > plain else float("nan")
    return [*(f"{value * 1000:.3f} ms" for value in (plain, ours, theirs)), f"{share:.2f}"]


if __name__ == "__main__":
    main()
