"""Thousands of damaged traces, each looked at in every way there is.

    .venv/bin/python tests/torture/corrupted_files.py --folders 1000 --chrome 300 --execution 300
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
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.corruptions import corrupt_folder, corrupt_json, numpy_of, seeded
from support.every_view import look_at_everything
from support.hostile_sources import write_sources

MOST_SECONDS = 60
MOST_BYTES = 3 << 30
CASES_PER_PROCESS = 20
FINDING = 7
KINDS = ("folder", "chrome", "execution")


def run_case(kind: str, seed: int, number: int, sources: Path, work: Path) -> str:
    """One case; returns what became of it."""
    draw = seeded(seed, kind, number)
    folder = work / f"{kind}-{number}"
    folder.mkdir()
    try:
        name = draw.choice(sorted(p.name for p in (sources / kind).iterdir()))
        source = sources / kind / name
        if kind == "folder":
            path = folder / "t"
            done = corrupt_folder(draw, source, path)
        else:
            path = folder / "t.json"
            nodes = "traceEvents" if kind == "chrome" else "nodes"
            done = corrupt_json(draw, source, path, nodes)
        print(f"{name}: {done}", flush=True)
        return look_at_everything(path, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_cases(
    cases: list[tuple[str, int]], seed: int, sources: Path, work: Path, log: Path
) -> Iterator[tuple[str, int, str, str]]:
    """Cases in a process of their own; yields kind, number, outcome and what was said of it."""
    while cases:
        outcomes = work / "outcomes"
        outcomes.write_text("")
        child = os.fork()
        if child == 0:
            _be_child(cases[:CASES_PER_PROCESS], seed, sources, work, outcomes, log)
        _, status = os.waitpid(child, 0)
        finished = outcomes.read_text().splitlines()
        for (kind, number), outcome in zip(cases, finished, strict=False):
            yield kind, number, outcome, ""
        cases = cases[len(finished) :]
        if status and cases:
            kind, number = cases.pop(0)
            end = f"ended by signal {status & 127}" if status & 127 else f"exit {status >> 8}"
            yield kind, number, "FINDING", f"{end}\n{log.read_text(errors='replace')}"


def _be_child(
    cases: list[tuple[str, int]], seed: int, sources: Path, work: Path, outcomes: Path, log: Path
) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_in_use() + MOST_BYTES,) * 2)
    warnings.simplefilter("error", RuntimeWarning)  # NumPy's, of arithmetic that went wrong
    with outcomes.open("a", buffering=1) as told:
        for kind, number in cases:
            with log.open("w") as said:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
            faulthandler.enable(file=2)
            faulthandler.dump_traceback_later(MOST_SECONDS, exit=True, file=2)
            try:
                outcome = run_case(kind, seed, number, sources, work)
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(FINDING)
            faulthandler.cancel_dump_traceback_later()
            told.write(outcome + "\n")
    os._exit(0)


def _in_use() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _cases(options: argparse.Namespace) -> Iterator[list[tuple[str, int]]]:
    if options.only:
        kind, number = options.only.split(":")
        yield [(kind, int(number))]
        return
    counts = {kind: getattr(options, f"{kind}s" if kind == "folder" else kind) for kind in KINDS}
    end = time.monotonic() + options.seconds if options.seconds else None
    start = 0
    while end is None or time.monotonic() < end:
        yield [(kind, start + i) for kind in KINDS for i in range(counts[kind])]
        if end is None:
            return
        start += max(counts.values())


def run(options: argparse.Namespace) -> int:
    """All cases; returns how many findings there were."""
    print(f"seed {options.seed}", flush=True)
    outcomes: Counter[str] = Counter()
    findings = 0
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        sources = work / "sources"
        write_sources(sources, numpy_of(random.Random(options.seed)), recorded=not options.built)
        for cases in _cases(options):
            log = work / "log"
            for kind, number, outcome, said in run_cases(cases, options.seed, sources, work, log):
                outcomes[f"{kind} {'refused' if outcome == 'refused' else outcome.split()[0]}"] += 1
                if outcome == "FINDING":
                    findings += 1
                    print(f"\n--only {kind}:{number} --seed {options.seed}: {said}", flush=True)
    print(dict(sorted(outcomes.items())), f"{findings} findings", flush=True)
    return findings


def main(arguments: list[str] | None = None) -> int:
    """The program; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--folders", type=int, default=200, help="trace folders (each round)")
    parser.add_argument("--chrome", type=int, default=60, help="Chrome JSON files")
    parser.add_argument("--execution", type=int, default=60, help="execution traces")
    parser.add_argument("--count", type=int, help="so many of each")
    parser.add_argument("--seconds", type=float, default=0, help="round after round, for so long")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--only", metavar="KIND:NUMBER", help="one case")
    parser.add_argument("--built", action="store_true", help="start from made-up traces alone")
    options = parser.parse_args(arguments)
    if options.count is not None:
        options.folders = options.chrome = options.execution = options.count
    return 1 if run(options) else 0


if __name__ == "__main__":
    sys.exit(main())
