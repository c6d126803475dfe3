"""A short form of tests/torture/corrupted_files.py: damaged traces end in errors or in answers."""

from pathlib import Path

import pytest

from support.processes import run_python

PROGRAM = Path(__file__).parents[1] / "torture" / "corrupted_files.py"


def run(*options):
    return run_python(PROGRAM, "--built", "--seed", "1", *options)


def test_damaged_files_end_in_errors_or_in_answers():
    done = run("--folders", "12", "--chrome", "8", "--replay", "0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("seed 1\n")
    assert "20 cases" in done.stdout
    assert "0 findings" in done.stdout


def test_damaged_calls_are_refused_or_replayed():
    pytest.importorskip("torch", reason="replays operators")
    done = run("--folders", "0", "--chrome", "0", "--replay", "6")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 cases" in done.stdout
    assert "0 findings" in done.stdout


@pytest.mark.parametrize("end", ["raise", "kill", "hang"])
def test_what_is_no_such_end_is_found(end):
    done = run("--only", "folder:0", "--fail", end, "--limit", "2")
    assert done.returncode == 1, done.stdout
    assert "--only folder:0 --seed 1" in done.stdout
    assert "1 findings" in done.stdout
