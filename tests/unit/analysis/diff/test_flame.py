"""The tree of a step: equal calls together, averaged over steps and recordings."""

import pytest

from opscope.analysis.diff.flame import flame_of
from opscope.columns.schema import EventKind
from support.build_trace import build_trace, span
from support.step_programs import step_program


def test_calls_in_the_calls_they_ran_in():
    found = flame_of([step_program(calls={"block0": 3})])
    assert found.step_ns == pytest.approx(1_525_000)
    assert found.time_ns["block0",] == pytest.approx(310_000)
    assert found.time_ns["block0", "aten::mm"] == pytest.approx(300_000)
    assert found.time_ns["block1", "aten::mm"] == pytest.approx(100_000)
    assert len(found.time_ns) == 24


def test_recordings_are_averaged():
    found = flame_of([step_program(), step_program(took_us={"block3": 200})])
    assert found.time_ns["block3", "aten::mm"] == pytest.approx(150_000)


def test_what_is_around_the_steps_is_not_in_them():
    trace = step_program(
        change=lambda spans: [span("train", 0, 90_000, kind=EventKind.PYTHON_CALL), *spans]
    )
    assert ("train",) not in flame_of([trace]).time_ns


def test_a_trace_without_steps_has_none():
    assert flame_of([build_trace("aten::mm 0..10")]).time_ns == {}
