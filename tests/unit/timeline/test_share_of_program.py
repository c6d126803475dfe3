"""Of a recording of some steps, how much of the program's time is like these."""

import pytest

from opscope.columns.metadata_kinds import STEPS, metadata_problem
from opscope.columns.schema import EventKind
from opscope.timeline.period import period_of
from opscope.timeline.share_of_program import share_of_program, what_passes_between
from support.build_trace import build_trace, span


def recorded(ended=0, passed_us=0):
    """Four ends of steps of 100 µs, of a program in which so many ended within so long."""
    name = "Optimizer.step#SGD.step"
    trace = build_trace(
        [span(name, 100 * n + 50, 100 * n + 100, kind=EventKind.ANNOTATION) for n in range(4)]
    )
    seen = {"ended": ended, "passed_ns": 1000 * passed_us}
    return trace.with_metadata({STEPS: seen}) if ended else trace


def test_steps_in_bursts_are_a_part_of_the_program():
    trace = recorded(ended=101, passed_us=50_000)
    assert share_of_program(trace) == pytest.approx(0.2)
    said = what_passes_between(trace)
    assert "are 20% of the program's time" in said and "80% passes between steps" in said
    assert "look there first" in said
    assert said in str(period_of(trace))


def test_steps_one_after_the_other_are_all_of_it():
    trace = recorded(ended=101, passed_us=10_400)
    assert what_passes_between(trace) == "" and "(" not in str(period_of(trace))
    assert share_of_program(recorded(ended=101, passed_us=9_000)) == 1


@pytest.mark.parametrize("trace", [recorded(), recorded(1, 10), recorded(5, 0)])
def test_where_too_little_was_seen_nothing_is_said(trace):
    assert share_of_program(trace) is None and what_passes_between(trace) == ""


@pytest.mark.parametrize("value", [3, {}, {"ended": -1, "passed_ns": 2}, {"ended": 1}])
def test_what_is_no_account_of_steps_is_not_read(value):
    assert metadata_problem(STEPS, value)
    assert not metadata_problem(STEPS, {"ended": 2, "passed_ns": 2})
