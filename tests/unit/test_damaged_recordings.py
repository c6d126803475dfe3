"""A short form of tests/torture/left_files.py: damaged recordings end in errors or in traces."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="records operators")

TESTS = Path(__file__).parents[1]


def test_damaged_recordings_are_read_or_refused():
    command = [sys.executable, "-m", "torture.left_files", "--count", "200", "--seed", "1"]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "200 cases" in done.stdout
    assert "read" in done.stdout and "refused" in done.stdout
