"""Run the tests in as many processes as there are processors: ``python tests/run.py [ARGUMENTS]``.

Arguments are pytest's. The first process shows what it does; what the others wrote follows.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


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
    return max(map(abs, codes))


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
