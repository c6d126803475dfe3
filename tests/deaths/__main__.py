"""Many deaths; says which of them left something out, and how to have that one again."""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import opscope
from deaths.counts import UNITS_ENDED, Counts
from deaths.dying import FROM_OUTSIDE, WAYS, die
from deaths.judge import differences


def one_death(way: str, seed: int, counts: Counts, folder: Path) -> list[str]:
    """Have a program die, and compare."""
    counts.clear()
    child = os.fork()
    if child == 0:
        try:
            die(folder, counts, way, seed)
        finally:
            os._exit(99)
    if way == FROM_OUTSIDE:
        _wait_for_work(counts, random.Random(seed))
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 99:
        return ["the program failed before it died"]
    return differences(opscope.load(folder), counts)


def _wait_for_work(counts, chance):
    """Until some of it is done, and then for any fraction of a unit."""
    done = chance.expovariate(1 / 300)
    while counts.rows[:, UNITS_ENDED].sum() < done:
        time.sleep(0)
    for _ in range(chance.randrange(2000)):
        pass


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="deaths", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    counts, failed, ways = Counts(), 0, Counter()
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        way = WAYS[seed % len(WAYS)]
        folder = Path(tempfile.mkdtemp(prefix="opscope-death-"))
        try:
            found = one_death(way, seed, counts, folder)
        except opscope.OpscopeError as error:
            found = [str(error)]
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        ways[way] += 1
        if found:
            failed += 1
            print(f"seed {seed}, {way}: {'; '.join(found)}", flush=True)
    print(f"{arguments.count} deaths, {failed} of them lost something")
    print(", ".join(f"{way}: {count}" for way, count in ways.items()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
