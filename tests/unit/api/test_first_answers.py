"""What somebody calls who has just recorded something: summary, steps, head, load_trace, report."""

from __future__ import annotations

import pytest

import opscope
from opscope.errors import TraceFormatError, UsageError
from support.build_trace import build_trace, span

STEP_US = 1000


@pytest.fixture
def trace():
    steps = []
    for step in range(3):
        start = step * STEP_US
        steps.append(span(f"ProfilerStep#{step}", start, start + STEP_US))
        steps.append(span("aten::mm", start + 10, start + 610, parent=2 * step))
    return build_trace(steps)


def test_a_summary_is_printed_as_verdict_and_table(trace):
    summary = trace.summary()
    lines = str(summary).splitlines()
    assert lines[0].startswith("verdict: ")
    assert any(line.split()[:2] == ["aten::mm", "3"] for line in lines)
    assert "aten::mm" in summary._repr_html_()
    with pytest.raises(UsageError):
        trace.summary("no such period")


def test_steps_are_as_many_and_as_long_as_the_program_marked(trace):
    steps = trace.steps()
    assert len(steps) == 3
    assert steps.duration_ns.tolist() == [STEP_US * 1000] * 3
    header, first, *_ = str(steps).splitlines()[1:]
    assert header.split() == ["step", "duration", "forward", "rest"]
    assert first.split() == ["0", "1.00", "ms", "600", "µs", "400", "µs"]
    assert len(build_trace([]).steps()) == 0


def test_the_first_rows_of_a_table(trace):
    head = str(trace.events.head(2)).splitlines()
    assert "6 rows" in head[0]
    assert [line.split()[0] for line in head[1:]] == ["row", "0", "1"]


def test_loading_says_what_it_returns(trace, tmp_path):
    trace.save(tmp_path / "one")
    assert isinstance(opscope.load_trace(tmp_path / "one"), opscope.Trace)
    for rank in (0, 1):
        trace.save(tmp_path / "job", rank=rank)
    assert isinstance(opscope.load_job(tmp_path / "job"), opscope.Job)
    assert isinstance(opscope.load_trace(tmp_path / "job", rank=1), opscope.Trace)
    with pytest.raises(UsageError, match="2 processes"):
        opscope.load_trace(tmp_path / "job")


def test_a_program_is_not_taken_for_a_trace(tmp_path):
    (tmp_path / "train.py").write_text("import torch\n")
    with pytest.raises(TraceFormatError, match="is a program"):
        opscope.load(tmp_path / "train.py")


def test_a_wrong_keyword_names_the_right_one():
    with pytest.raises(TypeError, match="Did you mean 'with_stack'"):
        opscope.profile(with_stak=True)


def test_only_public_names_are_listed():
    assert set(dir(opscope)) == {*opscope.__all__, "drop_in", "triggers", "__version__"}
