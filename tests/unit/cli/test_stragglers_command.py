"""``opscope stragglers``: every format, and what it says where there is nothing to compare."""

import csv
import io
import json

import pytest

from support.build_trace import build_trace, span


def rank_trace(slow=False, steps=20):
    spans, at = [], 0.0
    for number in range(steps):
        took = 90 if slow else 40
        spans += [
            span(f"ProfilerStep#{number}", at, at + 200, step=number),
            span("aten::mm", at, at + took),
            span("c10d::allreduce_", at + 100, at + 190 - took),
        ]
        at += 200
    return build_trace(spans)


@pytest.fixture
def job(tmp_path):
    for rank in range(4):
        rank_trace(slow=rank == 2).save(tmp_path / "job", rank=rank)
    return tmp_path / "job"


def test_who_is_slow_is_said(command_line, job):
    outcome = command_line("stragglers", job)
    assert outcome.code == 0
    assert "rank 2 takes" in outcome.out and "more than the middle one" in outcome.out


def test_every_format_says_the_same(command_line, job):
    (slow,) = json.loads(command_line("stragglers", job, "--format", "json").out)["slow"]
    (row,) = csv.DictReader(io.StringIO(command_line("stragglers", job, "--format", "csv").out))
    assert slow["rank"] == 2 and row["process"] == "rank 2"
    for key in ("own_ns", "others_ns", "cause", "gain_ns"):
        assert row[key] == str(slow[key])
    assert row["operator"] == slow["where"]["operator"] == "aten::mm"
    markdown = command_line("stragglers", job, "--format", "md").out
    assert "| rank 2 | rank 2 takes" in markdown


def test_ranks_that_are_alike_are_said_to_be(command_line, tmp_path):
    for rank in range(3):
        rank_trace().save(tmp_path / "job", rank=rank)
    outcome = command_line("stragglers", tmp_path / "job")
    assert "No rank is slower than the others by more than chance" in outcome.out


def test_chosen_ranks_are_compared(command_line, job):
    outcome = command_line("stragglers", job, "--rank", "0,1,3")
    assert "No rank is slower" in outcome.out


def test_one_process_is_no_job(command_line, tmp_path):
    rank_trace().save(tmp_path / "one")
    outcome = command_line("stragglers", tmp_path / "one")
    assert outcome.code == 2 and "opscope run --children" in outcome.complaint


def test_too_few_steps_are_said(command_line, tmp_path):
    for rank in range(3):
        rank_trace(steps=2).save(tmp_path / "job", rank=rank)
    assert (
        "0 of 3 processes have 5 steps or more" in command_line("stragglers", tmp_path / "job").out
    )
