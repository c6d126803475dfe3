"""Run the tests in several processes: ``python tests/run.py [ARGUMENTS]``.

There is one more than processors, because many tests wait for processes that end;
``OPSCOPE_TEST_PROCESSES`` has another number.

Arguments are pytest's. The first process shows what it does; what the others wrote follows. A test
that does not end is ended, with what every thread of it was doing, and another process goes on with
the rest. A few tests that fail are run once more when nothing else runs: what fails beside others
and not alone is named, and what fails again has failed. ``OPSCOPE_TEST_ONCE=1`` runs nothing twice.
The last lines name what failed, each with its reason: where only the end of a log is kept, that is
what has to be in it.
"""

import compileall
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from support.supervised import Supervised

HERE = Path(__file__).resolve().parent

FAILED = 1
"""What pytest ends with when it ran everything and some of it failed."""

RUN_AGAIN = 20
"""More failures than these are not the machine's doing."""

NAMED = 20
"""At most so many failures are named at the end."""

LIMIT_SECONDS = 300
"""A test that takes longer hangs: the longest takes a quarter of it beside another one."""


def main() -> int:
    # What a shell runs in the background ignores interrupts, what nohup runs a terminal that goes,
    # and so would all that tests begin.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    _compile()
    count = int(os.environ.get("OPSCOPE_TEST_PROCESSES") or len(os.sched_getaffinity(0)) + 1)
    with tempfile.TemporaryDirectory() as folder:
        outputs = [None, *(Path(folder, f"{number}.txt") for number in range(1, count))]
        processes = [_supervised(Path(folder), output, sys.argv[1:]) for output in outputs]
        code = _run(processes)
        for number, output in enumerate(outputs[1:], start=2):
            print(f"\n== what process {number} of {count} wrote\n{output.read_text()}", flush=True)
        failed = _failed_in(Path(folder))
    if code == FAILED and 0 < len(failed) <= RUN_AGAIN and "OPSCOPE_TEST_ONCE" not in os.environ:
        return _run_alone(failed)
    _name(failed)
    return code


def _compile():
    """Once, not in every process that a test starts: some environments let these keep nothing."""
    for folder in ("src", "tests"):
        compileall.compile_dir(HERE.parent / folder, quiet=2)


def _run_alone(failed):
    print(f"\n== once more, alone: {len(failed)} that failed", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        code = _run([_supervised(Path(folder), None, list(failed))])
        again = _failed_in(Path(folder))
    if code == 0:
        print("\n== passed alone, after failing beside other tests:", *failed, sep="\n   ")
    _name(again)
    return code


def _failed_in(folder):
    """By test that failed the first line of why."""
    lines = [line for file in sorted(folder.glob("failed-*")) for line in _lines(file)]
    return dict(sorted(line.split("\t", 1) for line in lines))


def _name(failed):
    """Say what failed, and the end of a log says it."""
    if failed:
        print(f"\n== failed: {len(failed)}", flush=True)
    for test, why in list(failed.items())[:NAMED]:
        print(f"   {test}: {why}", flush=True)


def _run(processes):
    """What pytest would end with: the worst of all, at least that some failed if one hung."""
    try:
        while sum(process.continues() for process in processes):
            time.sleep(0.2)
    finally:
        for process in processes:
            process.end()
    return max(process.code for process in processes)


def _supervised(folder, output, arguments):
    command = [sys.executable, "-m", "pytest", *arguments]
    return Supervised(command, HERE.parent, folder, output, LIMIT_SECONDS)


def _lines(file):
    return file.read_text().splitlines()


if __name__ == "__main__":
    sys.exit(main())
