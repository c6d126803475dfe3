"""``python -m benchmarks.version_rounds``: how often ``opscope diff --run 5`` judges wrongly.

Half of the pairs of scripts are equal, in the others a step of the new version takes 5 % more CPU
time. Another process makes noise beside them.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.small_trainings import KINDS
from opscope.analysis.diff.result import TimeVerdict
from opscope.base.python_process import opscope_command

_SCRIPT = """import sys
sys.path.insert(0, {root!r})
from benchmarks.small_trainings import train
train({kind!r}, {more}, {steps})
"""


def main() -> None:
    name = "python -m benchmarks.version_rounds"
    parser = argparse.ArgumentParser(prog=name, description=__doc__)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--noise", choices=_NOISES, default="bursts")
    parser.add_argument("--apart", action="store_true", help="one run after the other")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    context.Process(target=_NOISES[options.noise], args=[options.seed], daemon=True).start()
    alarms = found = 0
    for pair in range(options.pairs):
        begun = time.monotonic()
        kind, more = list(KINDS.items())[pair // 2 % len(KINDS)]
        is_slower = bool(pair % 2)
        step = _compared(kind.__name__, more if is_slower else 1.0, options)
        verdict = TimeVerdict(step["verdict"])
        alarms += not is_slower and verdict is not TimeVerdict.NO_DIFFERENCE
        found += is_slower and verdict is TimeVerdict.SLOWER
        change, margin = (step[key] / step["a_ns"] for key in ("change_ns", "margin_ns"))
        print(
            f"{kind.__name__:9} {'+5 %' if is_slower else 'equal'} {change:+.1%} ± {margin:.1%} "
            f"p {step['p_value']:.4f} {verdict.value} ({time.monotonic() - begun:.0f} s, "
            f"load {os.getloadavg()[0]:.0f})",
            flush=True,
        )
    half = options.pairs // 2
    print(f"{alarms} false alarms in {options.pairs - half}; {found} of {half} found")


def _compared(kind: str, more: float, options: argparse.Namespace) -> dict[str, Any]:
    """Change of the step that the command reports for a pair."""
    root = str(Path(__file__).parent.parent)
    with tempfile.TemporaryDirectory() as folder:
        for version, work in (("old.py", 1.0), ("new.py", more)):
            text = _SCRIPT.format(root=root, kind=kind, more=work, steps=options.steps)
            Path(folder, version).write_text(text)
        words = ["diff", "--run", str(options.rounds), "old.py", "new.py"]
        words += ["--format", "json", "-o", "found.json", *(["--apart"] if options.apart else [])]
        subprocess.run(opscope_command(*words), cwd=folder, check=False, capture_output=True)
        step: dict[str, Any] = json.loads(Path(folder, "found.json").read_text())["step"]
    return step


def _between(draw: random.Random) -> float:
    return draw.uniform(0.1, 2)


def _bursts(seed: int) -> None:
    """Computation in bursts."""
    draw = random.Random(seed)
    while True:
        until = time.perf_counter() + _between(draw)
        while time.perf_counter() < until:
            sum(range(1000))
        time.sleep(_between(draw))


def _copies(seed: int) -> None:
    """Bursts of passes over memory."""
    draw, much = random.Random(seed), np.ones(4_000_000)
    while True:
        until = time.perf_counter() + _between(draw)
        while time.perf_counter() < until:
            much += 1
        time.sleep(_between(draw))


def _builds(seed: int) -> None:
    """Builds of C++."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "a.cpp")
        source.write_text(
            "#include <regex>\nbool f(char* a) { return regex_match(a, std::regex(a)); }\n"
        )
        while True:
            subprocess.run(["c++", "-O2", "-c", source, "-o", f"{folder}/a.o"], check=False)
            time.sleep(_between(draw))


_NOISES: dict[str, Callable[[int], None]] = {
    "bursts": _bursts,
    "copies": _copies,
    "builds": _builds,
}


if __name__ == "__main__":
    main()
