"""``opscope ranks --collectives``: every format says the same, and what is not known is said."""

import csv
import io
import json

import pytest

from support.job_of_collectives import rank_trace


@pytest.fixture
def job(tmp_path):
    for rank, late in enumerate([0, 40, 20]):
        calls = [
            ("allreduce_", (), at + late, at + late + 10, at + 100) for at in range(0, 1000, 200)
        ]
        rank_trace(range(3), calls).save(tmp_path / "job", rank=rank)
    return tmp_path / "job"


def test_who_waited_for_whom_is_shown(command_line, job):
    outcome = command_line("ranks --collectives", job)
    assert outcome.code == 0
    assert "allreduce 1000 B, 3 ranks" in outcome.out and "rank 1 (100%)" in outcome.out
    assert "All processes ran on one machine (here) with one clock." in outcome.out
    assert "Not matched" not in outcome.out


def test_every_format_says_the_same(command_line, job):
    said = json.loads(command_line("ranks --collectives", job, "--format", "json").out)
    (kind,) = said["collectives"]
    (row,) = csv.DictReader(
        io.StringIO(command_line("ranks --collectives", job, "--format", "csv").out)
    )
    for key, value in row.items():
        assert value == str(kind[key])
    assert (kind["count"], kind["last"], kind["wait_ns"]) == (5, "rank 1", 20_000)
    assert [one["wait_ns"] for one in said["processes"]] == [200_000, 0, 100_000]
    markdown = command_line("ranks --collectives", job, "--format", "md").out
    assert "| allreduce 1000 B, 3 ranks | 5 | 50.0 µs |" in markdown
    assert "| rank 1 | 5 | 0 ns |" in markdown


def test_waits_that_clocks_do_not_tell_are_reported_to_be_so(command_line, tmp_path):
    for rank in range(2):
        calls = [("barrier", (), at, at + 10, at + 400) for at in range(0, 5000, 500)]
        about = {"host_name": f"host {rank}"}
        rank_trace(range(2), calls, metadata=about).save(tmp_path / "job", rank=rank)
    outcome = command_line("ranks --collectives", tmp_path / "job")
    assert "Clocks of 2 machines are aligned to within" in outcome.out
    assert "In 100% of collectives, ranks waited less than the clock error" in outcome.out
