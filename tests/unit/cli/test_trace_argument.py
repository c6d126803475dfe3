"""Which trace is read when none is named."""

import os

import pytest

from support.build_trace import build_trace, span


@pytest.fixture
def save(tmp_path, monkeypatch):
    """Saves a trace of one operator in the current folder, written at ``time``."""
    monkeypatch.chdir(tmp_path)

    def call(name, operator, time):
        rank = build_trace([span(operator, 0, 10)]).save(tmp_path / name)
        os.utime(rank / "manifest.json", (time, time))

    return call


def test_the_newest_in_this_folder(command_line, save):
    save("train.opscope", "aten::mm", 100)
    save("train-2.opscope", "aten::add", 300)
    save("eval.opscope", "aten::sub", 200)
    outcome = command_line("summary", "--format", "csv")
    assert outcome.out.splitlines()[1].startswith("aten::add,")
    assert "opscope: train-2.opscope, the newest trace in this folder" in outcome.err


def test_a_query_needs_no_trace_before_it(command_line, save):
    save("train.opscope", "aten::mm", 100)
    outcome = command_line("sql", "select name from named_events", "--format", "csv")
    assert outcome.out.splitlines() == ["name", "aten::mm"]


def test_none_here(command_line, save, tmp_path):
    (tmp_path / "empty.opscope").mkdir()
    outcome = command_line("why --all")
    assert outcome.code == 2
    assert outcome.complaint == (
        f"There is no trace in {tmp_path}. Record one with `opscope run train.py`, or name a trace."
    )
