"""Cases of damaged files, each read in a forked process that may raise, crash, hang or grow.

Every case ends in an error of opscope's own or in an answer. What does not is a finding: it is
printed with the options that run that case alone.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

PER_PROCESS = 50
FINDING = "FINDING"

Case: TypeAlias = tuple[str, int]
"""Kind and number."""

RunCase: TypeAlias = Callable[[str, int], str]
"""Runs one, and returns what became of it."""


def run_cases(
    work: Path, cases: list[Case], run_case: RunCase, workers: int = 1
) -> Iterator[tuple[Case, str, str]]:
    """Yields each case, what became of it, and what a finding printed; ``work`` takes files."""
    waiting = [cases[at : at + PER_PROCESS] for at in range(0, len(cases), PER_PROCESS)][::-1]
    running: dict[int, list[Case]] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            part = waiting.pop()
            running[_begin(work, part, run_case)] = part
        child, status = os.wait()
        part = running.pop(child)
        ends = (work / f"outcomes-{child}").read_text().splitlines()
        yield from ((case, end, "") for case, end in zip(part, ends, strict=False))
        if status:
            end = f"signal {status & 127}" if status & 127 else f"exit code {status >> 8}"
            log = (work / f"log-{child}").read_text(errors="replace")
            yield part[len(ends)], FINDING, f"{end}\n{log}"
            waiting.append(part[len(ends) + 1 :])


def _begin(work: Path, part: list[Case], run_case: RunCase) -> int:
    child = os.fork()
    if child:
        return child
    own = os.getpid()
    with open(work / f"outcomes-{own}", "w", buffering=1) as told:
        for kind, number in part:
            with open(work / f"log-{own}", "w") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            faulthandler.enable(file=2)
            try:
                told.write(run_case(kind, number) + "\n")
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)
    os._exit(0)


def tell(found: Iterable[tuple[Case, str, str]], seed: int) -> int:
    """Print findings as they come and counts at the end; the exit code."""
    outcomes: Counter[str] = Counter()
    for (kind, number), outcome, said in found:
        outcomes[f"{kind} {outcome.split()[0]}"] += 1
        if outcome == FINDING:
            print(f"\n--only {kind}:{number} --seed {seed}: {said}", flush=True)
    findings = sum(count for what, count in outcomes.items() if what.endswith(FINDING))
    print(f"{outcomes.total():,} cases: {dict(outcomes)}; {findings} findings", flush=True)
    return 1 if findings else 0


def parser(doc: str | None, count: int) -> argparse.ArgumentParser:
    """What all such programs take."""
    made = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    made.add_argument("--count", type=int, default=count, help="of cases")
    made.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    made.add_argument("--only", metavar="KIND:NUMBER", help="one case")
    made.add_argument("--kind", help="cases of this kind alone")
    made.add_argument("--workers", type=int, default=2, help="processes at a time")
    return made


def chosen(options: argparse.Namespace, kinds: tuple[str, ...]) -> list[Case]:
    """The cases that these options ask for; ``kinds`` take turns, one as often as it is there."""
    if options.only:
        kind, number = options.only.split(":")
        return [(kind, int(number))]
    kinds = (options.kind,) if options.kind else kinds
    return [(kinds[number % len(kinds)], number) for number in range(options.count)]


def in_use_bytes() -> int:
    """Address space of this process."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
