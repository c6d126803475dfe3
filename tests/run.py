"""Run the tests in as many processes as there are processors: ``python tests/run.py [ARGUMENTS]``.

Arguments are pytest's. The first process shows what it does; what the others wrote follows. A few
tests that fail are run once more when nothing else runs: what fails beside others and not alone is
named, and what fails again has failed. ``OPSCOPE_TEST_ONCE=1`` runs nothing twice.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

FAILED = 1
"""What pytest ends with when it ran everything and some of it failed."""

RUN_AGAIN = 5
"""More failures than these are not the machine's doing."""


def main() -> int:
    count = int(os.environ.get("OPSCOPE_TEST_PROCESSES") or len(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder, f"{number}.txt") for number in range(1, count)]
        processes = [_start(folder, sys.argv[1:])]
        for output in outputs:
            with output.open("w") as file:
                processes.append(_start(folder, sys.argv[1:], file))
        codes = [process.wait() for process in processes]
        for number, output in enumerate(outputs, start=2):
            print(f"\n== what process {number} of {count} wrote\n{output.read_text()}", flush=True)
        failed = sorted({line for file in Path(folder).glob("failed-*") for line in _lines(file)})
    code = max(map(abs, codes))
    again = code == FAILED and 0 < len(failed) <= RUN_AGAIN
    return _run_alone(failed) if again and "OPSCOPE_TEST_ONCE" not in os.environ else code


def _run_alone(failed):
    print(f"\n== once more, alone: {len(failed)} that failed", flush=True)
    code = abs(subprocess.call([sys.executable, "-m", "pytest", *failed], cwd=HERE.parent))
    if code == 0:
        print("\n== passed alone, after failing beside other tests:", *failed, sep="\n   ")
    return code


def _lines(file):
    return file.read_text().splitlines()


def _start(folder, arguments, output=None):
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=HERE.parent,
        env={**os.environ, "OPSCOPE_TESTS_TAKEN": folder},
        stdout=output,
        stderr=None if output is None else subprocess.STDOUT,
    )


if __name__ == "__main__":
    sys.exit(main())
