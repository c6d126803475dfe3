"""Tests that hang are ended and named, and the others are run."""

import sys
import time
from pathlib import Path

import psutil
import pytest

from matrix.results import read_outcomes, summary
from support.supervised import Supervised

TESTS = Path(__file__).resolve().parents[2]

HANGS = """
import ctypes, subprocess, sys, time
def test_before(): assert 6 * 7 == 43
def test_hangs():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    open("child", "w").write(str(child.pid))
    {hang}
def test_after(): pass
def test_fails(): assert False
"""


def run(folder, monkeypatch, **limits):
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    marks = folder / "marks"
    marks.mkdir()
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "support.taken_files",
    ]
    process = Supervised([*command, "-v"], folder, marks, folder / "output", **limits)
    while process.continues():
        time.sleep(0.05)
    done = [line for file in marks.glob("done-*") for line in file.read_text().splitlines()]
    lines = [line for file in marks.glob("failed-*") for line in file.read_text().splitlines()]
    failed = dict(line.split("\t") for line in lines)
    return process.code, sorted(done), failed, (folder / "output").read_text()


@pytest.mark.parametrize("hang", ["time.sleep(1000)", "ctypes.PyDLL(None).pause()"])
def test_what_hangs_is_ended_with_what_it_started_and_the_rest_is_run(tmp_path, monkeypatch, hang):
    (tmp_path / "test_it.py").write_text(HANGS.format(hang=hang))
    code, done, failed, output = run(tmp_path, monkeypatch, limit_seconds=4)
    tests = [f"test_it.py::test_{name}" for name in ("after", "before", "fails", "hangs")]
    assert code == 1 and done == tests
    whys = {"before": "assert (6 * 7) == 43", "fails": "assert False", "hangs": "it hung"}
    assert failed == {f"test_it.py::test_{name}": why for name, why in whys.items()}
    assert "assert (6 * 7) == 43" in output  # what would have been said at the end
    assert "== ended after 4 s, as it hung: test_it.py::test_hangs" in output
    assert "in test_hangs" in output  # where it was
    assert not psutil.pid_exists(int((tmp_path / "child").read_text()))


def test_a_row_of_the_matrix_knows_of_what_hung(tmp_path, monkeypatch):
    (tmp_path / "test_it.py").write_text("import time\ndef test_hangs(): time.sleep(1000)\n")
    outcomes = tmp_path / "outcomes"
    outcomes.mkdir()
    monkeypatch.setenv("OPSCOPE_MATRIX_OUTCOMES", str(outcomes))
    run(tmp_path, monkeypatch, limit_seconds=4)
    assert summary(read_outcomes(outcomes))["failed"] == {"test_it.py::test_hangs": "it hung"}


def test_what_hangs_before_any_test_is_ended(tmp_path, monkeypatch):
    (tmp_path / "test_it.py").write_text("import time\ntime.sleep(1000)\n")
    limits = {"limit_seconds": 60, "starting_seconds": 4}
    code, done, failed, output = run(tmp_path, monkeypatch, **limits)
    assert code == 1 and not done and not failed
    assert "as it hung: before any test" in output


def test_what_ends_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    code, done, failed, output = run(tmp_path, monkeypatch, limit_seconds=60)
    assert code == 0 and done == ["test_it.py::test_it"] and not failed
    assert "1 passed" in output and "hung" not in output
