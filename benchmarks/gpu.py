"""``python -m benchmarks.gpu``: what recording a GPU costs, and whether it agrees with torch's.

Programs of ``tests/gpu`` run plain, under opscope and under torch.profiler, in turn. Printed are
the median time of a run while recording, the device's included; what both profilers say the device
did; what is lost of a million kernels; and how long a step takes before and after a recording.
Needs an NVIDIA GPU; ``--device cpu`` only tries the benchmark itself out.
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

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from tests.gpu.device_work import work_under_opscope, work_under_torch
from tests.gpu.programs import PROGRAMS, Program, graph_replay, tiny_kernels, wait_for, warm_up

import opscope
from opscope.analysis.device_account import describe_devices, graph_share
from opscope.api.trace import Trace
from opscope.columns.device_rules import check_device_rules
from opscope.timeline.doubts import sentence

_LEAST_ATTRIBUTED = 0.99
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
        SystemExit: torch sees no GPU, or something is wrong.
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
    figures = Figures(device, options.json)
    graphs = _graphs(device, figures)  # first, while CUPTI's subscription is free
    programs = {name: make(device) for name, make in PROGRAMS.items()}
    console.print(_agreement(programs, device, figures))
    console.print(graphs)
    for line in (_many(device, options.kernels, figures), _afterwards(device)):
        console.print(line)
    console.print(_costs(programs, device, options.rounds, figures))
    sys.exit("\n".join(f"WRONG: {one}" for one in figures.wrong) or None)


class Figures:
    """What was measured and what of it is wrong, in a file that is whole after every part."""

    def __init__(self, device: str, path: Path | None) -> None:
        """``device``: nothing is wrong in a rehearsal on the CPU. ``path``: None for no file."""
        self._is_real = device == "cuda"
        self._path = path
        self._content: dict[str, Any] = {"wrong": []}

    @property
    def wrong(self) -> list[str]:
        """In words."""
        found: list[str] = self._content["wrong"]
        return found

    def add(self, what: str, figures: Any, *wrong: str) -> None:
        """Note figures of a part, and what is wrong in words; empty texts are nothing."""
        self._content[what] = figures
        if self._is_real:
            self._content["wrong"] += [text for text in wrong if text]
        if self._path is not None:
            self._path.write_text(json.dumps(self._content))


def _graphs(device: str, figures: Figures) -> str:
    with opscope.profile() as prof:
        graph_replay(device)()
    kernels, share = graph_share(prof.trace)
    missing = "no work in CUDA graphs was recorded" if not kernels else ""
    found = f"{kernels:,} activities in graphs, {share:.1%} of their time attributed"
    unknown = f"graphs: {found}" if share < _LEAST_ATTRIBUTED else ""
    about = {"kernels": kernels, "attributed": share}
    figures.add("graphs", about, missing, unknown, _broken("graphs", prof.trace))
    return f"captured and replayed while recording: {found}"


def _broken(what: str, trace: Trace) -> str:
    """What rules the device work of a trace breaks, in words."""
    broken = [sentence(doubt) for doubt in check_device_rules(trace).doubts]
    return f"{what}: {'; '.join(broken)}" if broken else ""


def _costs(programs: dict[str, Program], device: str, rounds: int, figures: Figures) -> Table:
    table = Table(title="Median time of a run, and of stopping")
    table.add_column("program")
    for heading in (*_VARIANTS, "share of torch's overhead", "opscope stops", "torch stops"):
        table.add_column(heading, justify="right")
    told: dict[str, Any] = {}
    for name, program in programs.items():
        runs, stops = _measure(program, device, rounds)
        plain, ours, theirs = (runs[variant] for variant in _VARIANTS)
        share = (ours - plain) / (theirs - plain) if theirs > plain else float("nan")
        known = None if np.isnan(share) else share  # JSON has no name for what is no number
        told[name] = {**runs, "share of torch's": known, "stops": stops}
        dear = name == _LAUNCH_BOUND and not share <= _MOST_OF_TORCHS
        wrong = f"{name}: recording costs {share:.2f} of what torch.profiler's does" if dear else ""
        figures.add("costs_s", told, wrong)
        times = (plain, ours, theirs, stops["opscope"], stops["torch.profiler"])
        shown = [f"{value * 1000:.3f} ms" for value in times]
        table.add_row(name, *shown[:3], f"{share:.2f}", *shown[3:])
    return table


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


def _agreement(programs: dict[str, Program], device: str, figures: Figures) -> Table:
    table = Table(title="What the device did, opscope / torch.profiler")
    for heading in ("program", "pieces of work", "names and counts", "launches", "device time"):
        table.add_column(heading, justify="left" if heading == "program" else "right")
    told: dict[str, Any] = {}
    for name, program in programs.items():
        warm_up(program, device)
        ours, theirs = work_under_opscope(program, device), work_under_torch(program, device)
        same = ours.counts == theirs.counts and ours.launches == theirs.launches
        told[name] = {
            "same": same,
            "device_ms": ours.total_ms,
            "torch's device_ms": theirs.total_ms,
        }
        figures.add("agreement", told, "" if same else f"{name}: torch.profiler saw other work")
        table.add_row(
            name,
            f"{ours.counts.total():,} / {theirs.counts.total():,}",
            "same"
            if ours.counts == theirs.counts
            else f"DIFFER: {_first_difference(ours, theirs)}",
            "same" if ours.launches == theirs.launches else "DIFFER",
            f"{ours.total_ms:.3f} / {theirs.total_ms:.3f} ms",
        )
    return table


def _first_difference(ours: Any, theirs: Any) -> str:
    names = sorted({*ours.counts, *theirs.counts})
    name = next(n for n in names if ours.counts[n] != theirs.counts[n])
    return f"DIFFER: {name[:40]} {ours.counts[name]} / {theirs.counts[name]}"


def _many(device: str, kernels: int, figures: Figures) -> str:
    program = tiny_kernels(device, kernels)
    with opscope.profile() as prof:
        program()
    start = time.perf_counter()
    trace = prof.trace
    seconds = time.perf_counter() - start
    found = int(np.count_nonzero(trace.table("gpu")["kind"] == 0))
    lost = {k: v for k, v in trace.ledger.get("gpu", {}).items() if k.startswith("dropped") and v}
    gone = f"{kernels - found:,} of {kernels:,} kernels lost" if found < kernels else ""
    about = {"launches": kernels, "recorded": found, "lost": lost, "decoded_s": seconds}
    figures.add("many launches", about, gone, _broken("many launches", trace))
    return (
        f"{kernels:,} launches: {found:,} kernels recorded, lost: {lost or 'none'}, decoded in "
        f"{seconds:.2f} s; {describe_devices(trace)[0]}"
    )


def _afterwards(device: str) -> str:
    step = tiny_kernels(device)
    _measure_plain(step, device)
    before = _measure_plain(step, device)
    with opscope.profile():
        step()
    after = _measure_plain(step, device)
    again = _measure_plain(step, device)
    return (
        f"a step before recording {before * 1000:.3f} ms, after it {after * 1000:.3f} ms, and "
        f"{again * 1000:.3f} ms measured again"
    )


def _measure_plain(program: Program, device: str) -> float:
    return statistics.median(_seconds(program, device, nullcontext)[0] for _ in range(50))


if __name__ == "__main__":
    main()
