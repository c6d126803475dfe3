"""``python -m benchmarks.advice``: are the findings about programs with planted faults right?"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import benchmarks.advice.child  # noqa: F401 (which lists the programs)
from benchmarks.advice.judge import Verdict, judge
from benchmarks.advice.program import PROGRAMS
from benchmarks.advice.results import as_markdown, totals

_ROOT = Path(__file__).parents[2]
_ENVIRONMENT = {"TORCH_CPP_LOG_LEVEL": "ERROR"}  # memory that it did not see being allocated


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.advice", description=__doc__)
    parser.add_argument(
        "--only", metavar="PROGRAM", nargs="+", choices=sorted(PROGRAMS), help="some programs only"
    )
    options = parser.parse_args()
    verdicts = []
    for name in options.only or PROGRAMS:
        verdicts.append(_verdict(name))
        print(verdicts[-1], file=sys.stderr, flush=True)
    print(f"{as_markdown(verdicts)}\n\n{totals(verdicts)}")


def _verdict(name: str) -> Verdict:
    """That with the middle promise of several recordings; of a tuned program the worst."""
    command = [sys.executable, "-m", "benchmarks.advice.child", name]
    environment = {**os.environ, **_ENVIRONMENT}
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=_ROOT, env=environment)
    result = json.loads(done.stdout.splitlines()[-1])
    given = [judge(PROGRAMS[name], result["real"], found) for found in result["found"]]
    ordered = sorted(given, key=lambda one: (len(one.wrong), one.promised))
    return ordered[-1] if given[0].is_tuned else ordered[len(given) // 2]


if __name__ == "__main__":
    main()
