"""Own time of events that reach over several steps, and of those within one."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from opscope.analysis.diff.step_costs import _in_steps
from opscope.columns.schema import EventKind
from opscope.timeline.steps import Steps, find_steps
from opscope.timeline.tree.own_time import own_times
from support.build_trace import build_trace, nanoseconds, span


def by_step(trace, steps):
    event, step, time_ns = _in_steps(trace, steps)
    total = np.zeros((len(trace.events), len(steps)), dtype=np.int64)
    np.add.at(total, (event, step), time_ns)
    return total


def cut_at(*bounds_us):
    bounds = np.array([nanoseconds(one) for one in bounds_us])
    return Steps(np.arange(len(bounds) - 1), np.zeros(len(bounds) - 1), bounds[:-1], bounds[1:])


def test_each_step_has_the_part_that_passed_in_it():
    trace = build_trace(
        [
            span("train", 0, 100, kind=EventKind.PYTHON_CALL),
            span("aten::mm", 10, 30),
            span("aten::add", 45, 60),
        ]
    )
    found = by_step(trace, cut_at(0, 20, 50, 90)) / 1000
    assert found.tolist() == [[10, 15, 30], [10, 10, 0], [0, 5, 10]]


def test_what_is_outside_of_steps_is_left_out():
    trace = build_trace("aten::mm 0..10\naten::mm 20..30")
    assert by_step(trace, cut_at(15, 40)).sum(axis=1).tolist() == [0, 10_000]


def test_time_between_marked_steps_belongs_to_none():
    trace = build_trace("ProfilerStep#0 0..10\naten::mm 12..14\nProfilerStep#1 15..20")
    assert by_step(trace, find_steps(trace)).sum(axis=0).tolist() == [10_000, 5_000]


SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40)), min_size=1, max_size=25)


@settings(deadline=None)
@given(SPANS, st.lists(st.integers(-5, 110), max_size=6))
def test_steps_without_gaps_add_up_to_own_times(spans, cuts):
    ordered = sorted(spans, key=lambda one: (one[0], -one[1]))
    trace = build_trace([span(f"f{i}", a, a + took) for i, (a, took) in enumerate(ordered)])
    steps = cut_at(*sorted({-10, *cuts, 120}))
    assert by_step(trace, steps).sum(axis=1).tolist() == own_times(trace).tolist()
