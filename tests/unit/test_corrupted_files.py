"""Short forms of tests/torture/corrupted_files.py and left_files.py."""

from pathlib import Path

import pytest

from support.processes import run_python

TESTS = Path(__file__).parents[1]


def run(module, *options):
    done = run_python("-m", f"torture.{module}", "--seed", "1", *options, cwd=TESTS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("seed 1\n") and "; 0 findings" in done.stdout
    return done.stdout


def test_damaged_traces_end_in_errors_or_in_answers():
    pytest.importorskip("torch", reason="replays operators")
    assert "12 cases" in run("corrupted_files", "--built", "--count", "12")


def test_damaged_recordings_are_read_or_refused():
    pytest.importorskip("torch", reason="records operators")
    said = run("left_files", "--count", "24")
    assert "24 cases" in said and " read" in said and " refused" in said


ENDS = """
import os, pathlib, signal, sys
from torture.cases import run_cases, tell
ends = {
    "fine": lambda: None,
    "raises": lambda: 1 // 0,
    "dies": lambda: os.kill(os.getpid(), signal.SIGSEGV),
}
cases = [(kind, number) for number in range(2) for kind in ends]
found = run_cases(pathlib.Path(sys.argv[1]), cases, lambda kind, _: str(ends[kind]() or "read"))
sys.exit(tell(found, seed=5))
"""


def test_what_ends_in_another_way_is_found(tmp_path):
    done = run_python("-c", ENDS, tmp_path, cwd=TESTS)
    assert done.returncode == 1, done.stderr
    assert "6 cases" in done.stdout and "'fine read': 2" in done.stdout
    assert "4 findings" in done.stdout
    for number in range(2):
        raised = done.stdout.partition(f"--only raises:{number} --seed 5: ")[2]
        assert raised.startswith("exit code 1\n") and "ZeroDivisionError" in raised
        assert f"--only dies:{number} --seed 5: signal 11\n" in done.stdout
