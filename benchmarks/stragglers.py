"""Jobs on gloo with one planted fault, and without: is the right rank found, for the right cause?

    python -m benchmarks.stragglers [--ranks 4] [--each 5] [--clean 10] [--kinds forward,loader]

Every job is one program that starts its ranks and is recorded by ``opscope run --children --why``.
One rank has a fault; which one, and how much, is chosen at random, between a fifth and the double
of what a step takes otherwise. What is printed: of how many jobs the rank was named first, with the
cause that the fault is; of how many nobody was, with a fault smaller than what opscope says that it
would have told; and how many clean jobs had any rank named. Taking a processor away needs root, or
``RLIMIT_NICE``, to give the rank its own back.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import opscope
from opscope.columns.causes import Cause
from opscope.jobs.slow_ranks import SlowRanks

PROGRAM = Path(__file__).parent / "jobs" / "straggling_job.py"

CAUSES = {
    "forward": {Cause.OPERATOR},
    "backward": {Cause.OPERATOR},
    "sleep-in-backward": {Cause.TIMER},
    "python": {Cause.PYTHON},
    "loader": {Cause.LOADER, Cause.TIMER},
    "collection": {Cause.COLLECTION},
    "lock": {Cause.LOCK},
    "descheduled": {Cause.DESCHEDULED},
}
"""What each fault may be called."""


@dataclass(frozen=True)
class Told:
    """What was said of a job.

    Attributes:
        found: it.
        planted_ns: what the fault adds to a step of its rank.
        least_ns: what one would have to add to be told in any case.
    """

    found: SlowRanks
    planted_ns: int
    least_ns: float

    @property
    def first(self) -> tuple[int, Cause] | None:
        """The rank that was named first, with its cause."""
        if self.found.found:
            return self.found.found[0].process.number, self.found.found[0].cause
        return None


def record(folder: Path, ranks: int, fault: str, slow: int, strength: float) -> Told:
    """Run one job, and compare its ranks."""
    command = [sys.executable, "-m", "opscope", "run", "--children", "--why", "-o", str(folder)]
    command += [str(PROGRAM), str(ranks), fault, str(slow), f"{strength:.3f}"]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    planted = next(line for line in ran.stdout.splitlines() if line.startswith("planted "))
    job = opscope.load(folder)
    assert isinstance(job, opscope.Job)
    found = job.slow_ranks()
    assert found.standing is not None
    least = found.standing.least_work_ns
    if fault == "descheduled":
        least = found.standing.least_delayed_ns or 0.0
    return Told(found, int(planted.split()[1]), least)


def one_job(pick: random.Random, kind: str, asked: argparse.Namespace, tally: Counter[str]) -> None:
    """Run a job with one fault, and say what was told of it."""
    ranks = asked.ranks or pick.randint(2, 8)
    slow, strength = pick.randrange(ranks), pick.uniform(0.2, 2.0)
    tally["all"] += 1
    with tempfile.TemporaryDirectory() as folder:
        told = record(Path(folder) / "job", ranks, kind, slow, strength)
        is_named = told.first is not None
        is_rank = told.first is not None and told.first[0] == slow
        is_cause = is_rank and told.first is not None and told.first[1] in CAUSES.get(kind, ())
        is_right = is_cause if kind != "none" else not is_named
        if asked.keep and not is_right:
            kept = asked.keep / f"{asked.seed}-{tally['all']}-{kind}-in-{slow}-of-{ranks}"
            shutil.copytree(Path(folder) / "job", kept)
    tally[f"{kind} jobs"] += 1
    tally[f"{kind} named"] += is_named
    tally[f"{kind} rank"] += is_rank
    tally[f"{kind} cause"] += is_cause
    is_small = told.planted_ns < told.least_ns
    tally[f"{kind} small"] += is_small and not is_named
    size = f"{told.planted_ns / 1e6:.1f} ms a step, {told.least_ns / 1e6:.1f} ms told in any case"
    print(
        f"{'' if is_right else 'small ' if is_small and not is_named else 'WRONG '}{kind} in rank "
        f"{slow} of {ranks}, {size} (load {os.getloadavg()[0]:.0f}): {told.found}",
        flush=True,
    )


def main() -> None:
    """Run jobs of every kind, say what was found, and how much of it was right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=0, help="2 to 8; by default any of these")
    parser.add_argument("--each", type=int, default=5, help="jobs with each fault")
    parser.add_argument("--clean", type=int, default=10, help="jobs without one")
    parser.add_argument("--kinds", default=",".join(CAUSES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a folder for the recordings of jobs gone wrong")
    asked = parser.parse_args()
    pick = random.Random(asked.seed)
    kinds = asked.kinds.split(",")
    plan = [kind for kind in kinds for _ in range(asked.each)] + ["none"] * asked.clean
    pick.shuffle(plan)
    tally: Counter[str] = Counter()
    for kind in plan:
        one_job(pick, kind, asked, tally)
    for kind in kinds:
        jobs, small = tally[f"{kind} jobs"], tally[f"{kind} small"]
        right = f"rank {tally[f'{kind} rank']}, cause {tally[f'{kind} cause']} of {jobs}"
        print(f"{kind}: {right}, {small} of them too small to be told, with nobody named")
    print(f"clean: {tally['none named']} of {tally['none jobs']} with a false alarm")


if __name__ == "__main__":
    main()
