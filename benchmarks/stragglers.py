"""Jobs on gloo with one planted fault, and without: is the right rank found, for the right cause?

    python -m benchmarks.stragglers [--ranks 4] [--each 5] [--clean 10] [--kinds forward,loader]

Every job is one program that starts its ranks and is recorded by ``opscope run --children --why``.
One rank has a fault; which one, and how much, is chosen at random, between a fifth and the double
of what a step takes otherwise. What is printed: of how many jobs the rank was named first, with the
cause that the fault is; and how many clean jobs had any rank named.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import opscope
from opscope.analysis.account.causes import Cause
from opscope.job.slow_ranks import SlowRanks

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


def record(folder: Path, ranks: int, fault: str, slow: int, strength: float) -> SlowRanks:
    """Run one job, and compare its ranks."""
    command = [sys.executable, "-m", "opscope", "run", "--children", "--why", "-o", str(folder)]
    command += [str(PROGRAM), str(ranks), fault, str(slow), f"{strength:.3f}"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    job = opscope.load(folder)
    assert isinstance(job, opscope.Job)
    return job.slow_ranks()


def main() -> None:
    """Run jobs of every kind, say what was found, and how much of it was right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=0, help="2 to 8; by default any of these")
    parser.add_argument("--each", type=int, default=5, help="jobs with each fault")
    parser.add_argument("--clean", type=int, default=10, help="jobs without one")
    parser.add_argument("--kinds", default=",".join(CAUSES))
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    pick = random.Random(asked.seed)
    plan = [kind for kind in asked.kinds.split(",") for _ in range(asked.each)]
    plan += ["none"] * asked.clean
    pick.shuffle(plan)
    right: Counter[str] = Counter()
    for kind in plan:
        ranks = asked.ranks or pick.randint(2, 8)
        slow, strength = pick.randrange(ranks), pick.uniform(0.2, 2.0)
        begin = time.time()
        with tempfile.TemporaryDirectory() as folder:
            found = record(Path(folder) / "job", ranks, kind, slow, strength)
        first = found.found[0] if found.found else None
        is_rank = first is not None and first.process.number == slow
        right[f"{kind} jobs"] += 1
        right[f"{kind} rank"] += is_rank if kind != "none" else first is not None
        if kind != "none":
            right[f"{kind} cause"] += is_rank and first is not None and first.cause in CAUSES[kind]
        took = time.time() - begin
        print(f"{kind} in rank {slow} of {ranks}, {strength:.2f} of a step ({took:.0f} s): {found}")
    for kind in [*asked.kinds.split(","), "none"]:
        jobs = right[f"{kind} jobs"]
        if kind == "none":
            print(f"clean: {right['none rank']} of {jobs} with a false alarm")
        elif jobs:
            print(f"{kind}: rank {right[f'{kind} rank']}, cause {right[f'{kind} cause']} of {jobs}")


if __name__ == "__main__":
    main()
