"""A short form of tests/torture/left_files.py: damaged recordings end in errors or in traces."""

from pathlib import Path

import pytest

from support.processes import run_python

pytest.importorskip("torch", reason="records operators")

TESTS = Path(__file__).parents[1]


def test_damaged_recordings_are_read_or_refused():
    done = run_python("-m", "torture.left_files", "--count", "60", "--seed", "1", cwd=TESTS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "60 cases" in done.stdout
    assert "read" in done.stdout and "refused" in done.stdout
