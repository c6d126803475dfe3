"""Thousands of damaged traces, each looked at in every way there is.

    .venv/bin/python tests/torture/corrupted_files.py --folders 1000 --chrome 300
    .venv/bin/python tests/torture/corrupted_files.py --replay 300 --seconds 600 --seed 7
    .venv/bin/python tests/torture/corrupted_files.py --seconds 600 --seed 7

Every case ends in an error of opscope's own or in answers. What does not is a finding: another
exception, a signal, more than a minute, or more than 3 GB of memory. It is printed with the line
that runs that case alone, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.corruptions import corrupt_calls, corrupt_folder, corrupt_json, numpy_of, seeded
from support.every_view import look_at_everything, replay_again
from support.hostile_sources import write_sources

MOST_BYTES = 3 << 30
CASES_PER_PROCESS = 20
FINDING = 7
KINDS = ("folder", "chrome", "replay")
FAILURES: dict[str, Callable[[], object]] = {
    "raise": lambda: 1 // 0,
    "kill": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "hang": lambda: any(iter(int, 1)),
}
"""Ways to go wrong, to see that they are noticed."""

Case: TypeAlias = tuple[str, int]
"""Kind and number."""


@dataclass(frozen=True)
class Run:
    """What all cases have in common."""

    seed: int
    sources: Path
    work: Path
    limit_seconds: float
    fail: str

    @property
    def log(self) -> Path:
        """What the case under way prints."""
        return self.work / "log"

    @property
    def outcomes(self) -> Path:
        """What became of the cases of the process under way, a line each."""
        return self.work / "outcomes"


def run_case(run: Run, kind: str, number: int) -> str:
    """One case; returns what became of it."""
    draw = seeded(run.seed, kind, number)
    folder = run.work / f"{kind}-{number}"
    folder.mkdir()
    try:
        sources = run.sources / ("chrome" if kind == "replay" else kind)
        source = draw.choice(sorted(sources.iterdir()))
        path = folder / ("t" if kind == "folder" else "t.json")
        print(f"{source.name}: {_corrupt(kind, draw, source, path)}", flush=True)
        FAILURES.get(run.fail, bool)()
        return replay_again(path) if kind == "replay" else look_at_everything(path, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _corrupt(kind: str, draw: random.Random, source: Path, path: Path) -> str:
    if kind == "folder":
        return corrupt_folder(draw, source, path)
    if kind == "replay":
        return corrupt_calls(draw, source, path)
    return corrupt_json(draw, source, path)


def run_cases(run: Run, cases: list[Case]) -> Iterator[tuple[Case, str, str]]:
    """Cases in processes of their own; yields each, what became of it, what was said of it."""
    while cases:
        run.outcomes.write_text("")
        child = os.fork()
        if child == 0:
            _be_child(run, cases[:CASES_PER_PROCESS])
        _, status = os.waitpid(child, 0)
        finished = run.outcomes.read_text().splitlines()
        for case, outcome in zip(cases, finished, strict=False):
            yield case, outcome, ""
        cases = cases[len(finished) :]
        if status and cases:
            end = f"signal {status & 127}" if status & 127 else f"exit code {status >> 8}"
            yield cases.pop(0), "FINDING", f"{end}\n{run.log.read_text(errors='replace')}"


def _be_child(run: Run, cases: list[Case]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_in_use() + MOST_BYTES,) * 2)
    warnings.simplefilter("error", RuntimeWarning)  # NumPy's, of arithmetic that went wrong
    with run.outcomes.open("a", buffering=1) as told:
        for kind, number in cases:
            with run.log.open("w") as said:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
            faulthandler.enable(file=2)
            faulthandler.dump_traceback_later(run.limit_seconds, exit=True, file=2)
            try:
                outcome = run_case(run, kind, number)
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(FINDING)
            faulthandler.cancel_dump_traceback_later()
            told.write(outcome + "\n")
    os._exit(0)


def _in_use() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _rounds(options: argparse.Namespace) -> Iterator[list[Case]]:
    if options.only:
        kind, number = options.only.split(":")
        yield [(kind, int(number))]
        return
    counts = {
        "folder": options.folders,
        "chrome": options.chrome,
        "replay": options.replay,
    }
    end = time.monotonic() + options.seconds
    start = 0
    while not start or time.monotonic() < end:
        yield [(kind, start + i) for kind in KINDS for i in range(counts[kind])]
        start += max(counts.values())


def look(options: argparse.Namespace) -> int:
    """All cases; returns how many findings there were."""
    print(f"seed {options.seed}", flush=True)
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        run = Run(options.seed, work / "sources", work, options.limit, options.fail)
        write_sources(run.sources, numpy_of(random.Random(options.seed)), not options.built)
        for cases in _rounds(options):
            for (kind, number), outcome, said in run_cases(run, cases):
                outcomes[f"{kind} {outcome.split()[0]}"] += 1
                if outcome == "FINDING":
                    print(f"\n--only {kind}:{number} --seed {run.seed}: {said}", flush=True)
                if outcomes.total() % 100 == 0:
                    print(f"{outcomes.total():,} cases: {dict(outcomes)}", flush=True)
    findings = sum(count for name, count in outcomes.items() if name.endswith("FINDING"))
    print(f"{outcomes.total():,} cases: {dict(outcomes)}; {findings} findings", flush=True)
    return findings


def main(arguments: list[str] | None = None) -> int:
    """The program; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--folders", type=int, default=200, help="trace folders (each round)")
    parser.add_argument("--chrome", type=int, default=60, help="Chrome JSON files")
    parser.add_argument("--replay", type=int, default=60, help="Chrome JSON files to run again")
    parser.add_argument("--count", type=int, help="so many of each")
    parser.add_argument("--seconds", type=float, default=0, help="round after round, for so long")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--only", metavar="KIND:NUMBER", help="one case")
    parser.add_argument("--built", action="store_true", help="start from made-up traces alone")
    parser.add_argument("--limit", type=float, default=60, help="seconds that a case may take")
    parser.add_argument("--fail", choices=FAILURES, default="", help="go wrong, to try this out")
    options = parser.parse_args(arguments)
    if options.count is not None:
        options.folders = options.chrome = options.replay = options.count
    return 1 if look(options) else 0


if __name__ == "__main__":
    sys.exit(main())
