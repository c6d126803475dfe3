"""``opscope ranks``: every format, and what it says where there is nothing to compare."""

import csv
import io
import json

import pytest

import opscope
from support.read_report import read_report
from support.step_programs import rank_program


def rank_trace(slow=False, **more):
    work_us = 90 if slow else 40
    return rank_program(work_us=work_us, wait_us=200 - work_us, **more)


@pytest.fixture
def job(tmp_path):
    for rank in range(4):
        rank_trace(slow=rank == 2).save(tmp_path / "job", rank=rank)
    return tmp_path / "job"


def test_every_format_says_the_same(command_line, job):
    (slow,) = json.loads(command_line("ranks", job, "--format", "json").out)["slow"]
    (row,) = csv.DictReader(io.StringIO(command_line("ranks", job, "--format", "csv").out))
    assert slow["rank"] == 2 and row["process"] == "rank 2"
    for key in ("own_ns", "others_ns", "cause", "gain_ns"):
        assert row[key] == str(slow[key])
    assert row["operator"] == slow["where"]["operator"] == "aten::mm"
    markdown = command_line("ranks", job, "--format", "md").out
    assert markdown.startswith("rank 2 works")


def test_limits_are_reported_in_every_format(command_line, job):
    said = "With two ranks, slow means slower"
    for format in ("table", "md", "csv", "json"):
        outcome = command_line("ranks", job, "--rank", "1,2", "--format", format)
        assert said in (outcome.err if format == "csv" else outcome.out), format


def test_every_view_has_the_same_figures(command_line, job):
    """The command, the account of all processes, the report and Python."""
    rank_trace(slow=True, last_us=400).save(job, rank=2)  # the mean is not the middle
    found = opscope.load(job).slow_ranks()
    said = found.sentences()
    assert len(said) == 1 and said[0].startswith("rank 2 works")
    assert command_line("ranks", job).out.split() == said[0].split()
    assert " ".join(said[0].split()) in " ".join(command_line("why", job).out.split())
    assert said[0] in command_line("why", job, "--format", "md").out
    stragglers = json.loads(command_line("ranks", job, "--format", "json").out)
    assert json.loads(command_line("why", job, "--format", "json").out)["stragglers"] == stragglers
    assert stragglers == found.as_dict()
    page = job.parent / "page.html"
    command_line("report", job, "-o", page)
    assert read_report(page.read_text()).data["ranks"]["sentences"] == said
    steps = opscope.load(job).steps()
    assert steps.mean_own_ns[2] == found.found[0].own_ns
    assert opscope.load(job).account().step_ns == tuple(steps.wall_ns.mean(axis=1).tolist())


def test_so_many_ranks_that_they_do_not_fit_in_memory_are_refused(command_line, job):
    outcome = command_line("ranks", job, "--rank", "0-999999999")
    assert outcome.code == 2 and "Give the number of a rank" in outcome.complaint


def test_chosen_ranks_are_compared(command_line, job):
    outcome = command_line("ranks", job, "--rank", "0,1,3")
    assert "No rank is slower than the others by more than chance" in outcome.out
