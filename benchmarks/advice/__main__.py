"""``python -m benchmarks.advice``: are the findings about programs with planted faults right?"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import opscope
from benchmarks.advice.child import LEVELS, SUBJECTS, findings_of
from benchmarks.advice.judge import Verdict, judge
from benchmarks.advice.program import PROGRAMS
from benchmarks.advice.results import as_markdown, totals
from opscope.storage.read_part import load_folder

_ROOT = Path(__file__).parents[2]
_ENVIRONMENT = {"TORCH_CPP_LOG_LEVEL": "ERROR"}  # memory that it did not see being allocated


def main() -> None:
    options = _parse()
    names = [
        name
        for name, program in PROGRAMS.items()
        if (name in options.only if options.only else program.is_on_gpu == options.gpu)
    ]
    conditions = ("quiet", *(["busy"] if options.busy else []))
    verdicts: dict[str, list[Verdict]] = {condition: [] for condition in conditions}
    known = _known(options.real)
    for name in names:
        for condition in conditions:
            with _busy(options.busy if condition == "busy" else 0):
                real, found = _found(name, options, known.get(name))
            known.setdefault(name, real)
            if options.real is not None:
                options.real.write_text(json.dumps(known))
            verdicts[condition].append(_median(name, real, found))
            print(f"{condition:6}", verdicts[condition][-1], file=sys.stderr, flush=True)
    for condition, given in verdicts.items():
        print(f"\n### {condition.capitalize()}\n\n{as_markdown(given)}\n")
        print(totals(given))


def _found(
    name: str, options: argparse.Namespace, real: dict[str, float] | None
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """What the fix of a program saves, and what is found in each of its recordings."""
    kept = sorted(options.traces.glob(f"{name}-?.opscope")) if options.traces else []
    if kept and real is not None:
        return real, [findings_of(opscope.Trace.of(load_folder(one))) for one in kept]
    result = _child("both" if real is None else "record", name, options)
    return real or result["real"], result["found"]


def _median(name: str, real: dict[str, float], recordings: list[dict[str, Any]]) -> Verdict:
    """The verdict with the middle promise of several recordings; of a tuned program the worst."""
    given = [judge(PROGRAMS[name], real, found) for found in recordings]
    ordered = sorted(given, key=lambda one: (len(one.wrong), one.promised))
    return ordered[-1] if given[0].is_tuned else ordered[len(given) // 2]


def _known(file: Path | None) -> dict[str, dict[str, float]]:
    """What the fixes were measured to save before, by program."""
    known: dict[str, dict[str, float]] = {}
    if file is not None and file.exists():
        known = json.loads(file.read_text())
    return known


def _child(what: str, name: str, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.advice.child", what, name, options.level]
    command += [str(options.traces.resolve())] if options.traces else []
    done = subprocess.run(
        command, stdout=subprocess.PIPE, check=True, cwd=_ROOT, env={**os.environ, **_ENVIRONMENT}
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@contextmanager
def _busy(count: int) -> Iterator[None]:
    """With so many other processes that compute all the time."""
    others = [subprocess.Popen([sys.executable, "-c", "while 1: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in others:
            process.kill()
            process.wait()


def _parse() -> argparse.Namespace:
    assert SUBJECTS
    parser = argparse.ArgumentParser(prog="python -m benchmarks.advice", description=__doc__)
    parser.add_argument(
        "--only", metavar="PROGRAM", nargs="+", choices=sorted(PROGRAMS), help="some programs only"
    )
    parser.add_argument(
        "--gpu", action="store_true", help="those that are about a GPU, in place of all others"
    )
    parser.add_argument(
        "--real", type=Path, metavar="FILE", help="keep what the fixes save, or take it from there"
    )
    parser.add_argument(
        "--traces",
        type=Path,
        metavar="DIR",
        help="keep recordings there, or look at those that are there of programs in --real again",
    )
    parser.add_argument(
        "--level", choices=LEVELS, default="stacks", help="which calls of Python are recorded"
    )
    parser.add_argument(
        "--busy", type=int, default=0, metavar="N", help="once more beside N busy processes"
    )
    options = parser.parse_args()
    if options.traces and options.busy:
        parser.error("--traces has one place for each recording: no two conditions at once")
    return options


if __name__ == "__main__":
    main()
