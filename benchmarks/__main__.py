"""``python -m benchmarks``: measure opscope against torch.profiler on this machine."""

from __future__ import annotations

import argparse
import gc
import os
from collections.abc import Callable, Iterator
from datetime import datetime

# Kineto logs every start and stop, and torch memory that it did not see allocated.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

import torch
from rich.console import Console
from rich.progress import Progress

from benchmarks import first_minutes, recording, report, results
from benchmarks.figures import Figure
from benchmarks.measurements import HISTORY
from benchmarks.rounds import Rounds
from benchmarks.sessions import start_kineto
from opscope.recording.bridge import bridge

GROUPS: dict[str, Callable[[Rounds], Iterator[Figure]]] = {
    "recording": recording.measure,
    "results": results.measure,
    "first-minutes": first_minutes.measure,
}


def main() -> None:
    options = _parse()
    torch.set_num_threads(1)  # operators that share out their work over threads vary more
    bridge.load()  # compiled now, not in a measurement
    start_kineto()
    gc.collect()
    gc.freeze()  # measurements run in forks: what exists by now is not theirs to look through
    figures: list[Figure] = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        count, share = (2, 0.2) if options.quick else (options.rounds, 1.0)
        rounds = Rounds(count, share, progress)
        for name in options.only or GROUPS:
            figures += GROUPS[name](rounds)
    print(report.as_markdown(figures))
    if not options.quick:
        HISTORY.mkdir(exist_ok=True)
        file = HISTORY / f"{datetime.now():%Y-%m-%d-%H%M}.json"
        file.write_text(report.as_json(figures) + "\n")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less exact, in about two minutes")
    parser.add_argument("--rounds", type=int, default=5, help="repetitions of each measurement")
    parser.add_argument("--only", nargs="+", choices=sorted(GROUPS), help="some figures only")
    return parser.parse_args()


if __name__ == "__main__":
    main()
