"""``opscope why --all``: what is slow and what to do, in every format."""

import csv
import json
import os

import pytest

from opscope.columns.schema import EventKind
from support.build_trace import build_trace, span


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """A program of which garbage collections take half; its one file is below this folder."""
    monkeypatch.chdir(tmp_path)
    file = os.path.join(tmp_path, "train.py")
    build_trace(
        [
            span("train", 0, 200, kind=EventKind.PYTHON_CALL, frame=(file, 3, "train")),
            span("aten::mm", 0, 90),
            span("gc", 100, 150, kind=EventKind.GC_PAUSE),
            span("gc", 150, 200, kind=EventKind.GC_PAUSE),
        ]
    ).save(tmp_path / "slow.opscope")
    return tmp_path / "slow.opscope"


def test_text(command_line, slow):
    outcome = command_line("why --all", slow)
    assert outcome.code == 0
    first, *rest = (line.rstrip() for line in outcome.out.splitlines())
    assert first == "high   Garbage collections interrupt the program: saves about 100 µs (50%)"
    text = " ".join(line.strip() for line in rest)
    assert "What to do: Call gc.collect()" in text
    assert "at train.py:3 in train (2 times, 100 µs)" in text
    assert "[garbage-collections]" in text
    assert "checks skipped, because their data was not recorded" in text


def test_what_went_with_a_process_that_was_killed_is_reported(command_line, tmp_path):
    def said(options):
        trace = build_trace([span("aten::mm", 0, 90)], metadata={"options": options})
        trace.save(tmp_path / f"{len(options)}.opscope")
        out = command_line("why --all", tmp_path / f"{len(options)}.opscope").out
        return " ".join(line.strip() for line in out.splitlines())

    lost = "1 checks skipped, because thread samples are missing"
    assert lost in said({"thread_samples": True})
    assert lost not in said({})


def test_every_format_says_the_same(command_line, slow):
    content = json.loads(command_line("why --all", slow, "--format", "json").out)
    assert [one["id"] for one in content["findings"]] == ["garbage-collections"]
    assert content["findings"][0]["places"][0]["line"] == 3
    assert content["wall_ns"] == 200_000
    (found,) = csv.DictReader(command_line("why --all", slow, "--format", "csv").out.splitlines())
    assert (found["id"], found["severity"]) == ("garbage-collections", "high")
    lines = command_line("why --all", slow, "--format", "md").out.splitlines()
    assert (
        lines[0] == "## high   Garbage collections interrupt the program: saves about 100 µs (50%)"
    )
    assert "- at train.py:3 in train (2 times, 100 µs)" in lines


def test_what_saves_next_to_nothing_is_not_what_to_change(command_line, tmp_path):
    spans = [("aten::mm", 0, 90), span("gc", 100, 150, kind=EventKind.GC_PAUSE)]
    build_trace([*spans, ("aten::mm", 160, 200)]).save(tmp_path / "t.opscope")
    assert "Garbage collections" in command_line("why --all", tmp_path / "t.opscope").out
    for options in ((), ("--format", "md")):
        summary = " ".join(command_line("summary", tmp_path / "t.opscope", *options).out.split())
        assert "Garbage collections" not in summary
        assert "no finding saves 0.1%" in summary
        assert "1 with smaller savings: opscope why --all" in summary


def test_nothing_found_is_reported(command_line, tmp_path):
    build_trace([("aten::mm", 0, 10)]).save(tmp_path / "fast.opscope")
    outcome = command_line("why --all", tmp_path / "fast.opscope")
    assert outcome.out.startswith("no known problem ")
    assert "checks ran)" in outcome.out
