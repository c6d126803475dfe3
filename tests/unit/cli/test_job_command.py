"""``opscope ranks --ask``: every question in every format, and what is said of nothing."""

import csv
import io
import json

import pytest

from support.build_trace import build_trace, span
from support.step_programs import rank_program

pytest.importorskip("ibis", reason="ibis is not installed")


def rank_trace(slow=False, **more):
    work_us = 90 if slow else 40
    return rank_program(work_us=work_us, wait_us=200 - work_us, **more)


@pytest.fixture
def job(tmp_path):
    for rank in range(3):
        rank_trace(slow=rank == 2).save(tmp_path / "job", rank=rank)
    return tmp_path / "job"


def test_a_question_without_an_answer_says_so(command_line, job):
    outcome = command_line("ranks --ask memory", job, "--format", "json")
    assert (outcome.code, json.loads(outcome.out)) == (0, []) and "no rows" in outcome.err
    assert " 0." in command_line("ranks --ask causes", job).out  # shares


def test_every_format_says_the_same(command_line, job):
    as_json = json.loads(command_line("ranks --ask", "spread", job, "--format", "json").out)
    text = command_line("ranks --ask", "spread", job, "--format", "csv").out
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [{k: str(v) for k, v in row.items()} for row in as_json] == rows
    markdown = command_line("ranks --ask", "spread", job, "--format", "md").out
    assert len(markdown.splitlines()) == 2 + len(rows)
    assert f"| {rows[0]['where']} |" in markdown
    assert rows[0]["where"] in command_line("ranks --ask", "spread", job).out


def test_of_many_rows_the_first_are_shown(command_line, tmp_path):
    for rank in range(2):
        rank_trace(steps=60).save(tmp_path, rank=rank)
    outcome = command_line("ranks --ask", "steps", tmp_path)
    assert len(outcome.out.splitlines()) == 41
    assert "only the first 40 rows" in outcome.err
    whole = command_line("ranks --ask", "steps", tmp_path, "--format", "csv")
    assert len(whole.out.splitlines()) == 61 and whole.err == ""
    few = command_line("ranks --ask", "steps", tmp_path, "--limit", "2")
    assert len(few.out.splitlines()) == 3 and "only the first" not in few.err


def test_what_makes_no_sense_is_refused(command_line, job, tmp_path):
    assert "is not one of ranks, steps" in command_line("ranks --ask", "who", job).complaint
    assert "expected one argument" in command_line("ranks --ask").complaint
    assert "less than 1" in command_line("ranks --ask ranks", job, "--limit", "0").complaint
    rank_trace().save(tmp_path / "one")
    assert "contains one process" in command_line("ranks --ask ranks", tmp_path / "one").complaint


def test_of_whom_something_is_missing_is_reported_with_every_other_answer(command_line, job):
    assert "is missing: `opscope ranks" not in command_line("ranks --ask", "operators", job).err
    dropped = {"events": {"dropped: no room": 7.0}}
    newer = {"newer opscope": {"shown as unknown: events of kind 77": 2.0}}
    for rank, ledger in ((1, dropped), (4, newer)):
        build_trace([span("aten::mm", 0, 40)], ledger=ledger).save(job, rank=rank)
    outcome = command_line("ranks --ask", "operators", job)
    assert "data of ranks 1, 4 is missing: `opscope ranks --ask losses` lists it" in outcome.err
    losses = command_line("ranks --ask", "losses", job, "--format", "csv")
    assert "is missing: `opscope ranks" not in losses.err
    assert sorted(losses.out.splitlines()[1:]) == [
        "events,dropped: no room,7,1,7,1",
        "newer opscope,shown as unknown: events of kind 77,2,1,2,4",
    ]


@pytest.mark.parametrize("rolled_up", [True, False])
def test_whatever_is_asked_of_a_job_says_it(command_line, job, tmp_path, rolled_up):
    build_trace([span("aten::mm", 0, 40)], ledger={"events": {"dropped: x": 1.0}}).save(job, rank=1)
    said = "data of rank 1 is missing: `opscope ranks --ask losses` lists it"
    commands = ("ranks", "summary", "ranks --collectives", "why --all", "why", "report")
    for command in commands if rolled_up else commands[:2]:
        if not rolled_up:
            for mark in job.glob("*/rollup.json"):
                mark.unlink()
        more = ("-o", tmp_path / "page.html") if command == "report" else ()
        assert command_line(command, job, *more).err.count(said) == 1, command
    rank_trace().save(job, rank=1)
    assert "is missing: `opscope ranks" not in command_line("ranks", job).err


def test_a_rollup_that_does_not_say_whether_something_is_missing_is_made_anew(command_line, job):
    build_trace([span("aten::mm", 0, 40)], ledger={"events": {"dropped: x": 1.0}}).save(job, rank=1)
    mark = job / "rank=00001" / "rollup.json"
    said = json.loads(mark.read_text())
    del said["lost"]
    mark.write_text(json.dumps(said))
    assert "data of rank 1 is missing" in command_line("ranks --ask", "operators", job).err
