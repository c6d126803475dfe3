"""Random programs with profiles that start and stop in any thread; more by hand with more seeds."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="records operators")

PROGRAM = Path(__file__).parents[1] / "programs" / "random_windows.py"


@pytest.mark.parametrize("first", [0, 6])
def test_whatever_threads_do_each_profile_holds_what_ran_in_it(first):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(first), "3"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-200:] + done.stderr[-3000:]
    assert done.stdout.count("resident MiB") == 3
