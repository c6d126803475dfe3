"""Generated jobs: what is said of them is what was planted."""

from pathlib import Path

import pytest

from support.processes import run_python

pytest.importorskip("ibis", reason="ibis is not installed")

ROOT = Path(__file__).parents[2]


def run(*arguments):
    return run_python("-m", "benchmarks.jobs", *arguments, cwd=ROOT)


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated") / "job"
    made = run("make", folder, "--ranks", 24, "--events", 4000, "--layers", 8)
    assert made.returncode == 0, made.stderr
    return folder


def test_what_was_planted_is_found(job):
    checked = run("check", job)
    assert checked.stdout.endswith("everything agrees\n"), checked.stdout + checked.stderr
    assert "off by 0.0" in checked.stdout


def test_the_check_notices_a_rank_that_is_another(job, tmp_path):
    other = tmp_path / "other"
    # Of 15 ranks the sixth is the slow one.
    made = run("make", other, "--ranks", 15, "--events", 4000, "--layers", 8, "--share", 5, 15)
    assert made.returncode == 0, made.stderr
    (job / "rank=00005").rename(tmp_path / "kept")
    (other / "rank=00005").rename(job / "rank=00005")
    checked = run("check", job)
    assert checked.returncode == 1
    assert "wrong: rank 5 operator" in checked.stdout
