"""Own time of events that reach over several steps, and of those within one."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from opscope.analysis.diff.places import CallPlace
from opscope.analysis.diff.step_costs import _in_steps
from opscope.analysis.diff.times import moved_times
from opscope.columns.schema import EventKind
from opscope.timeline.steps import Steps
from opscope.timeline.tree.line_nesting import own_times
from support.build_trace import build_trace, nanoseconds, span

PLACES = st.builds(CallPlace, st.sampled_from("abc"), st.sampled_from(["mm", "add", "relu"]))
CHANGES = st.lists(st.tuples(PLACES, st.floats(-1e9, 1e9, allow_subnormal=False)), max_size=30)


@settings(max_examples=40, deadline=None)
@given(CHANGES)
def test_sums(changes):
    places, change = [place for place, _ in changes], np.array([ns for _, ns in changes])
    moved = moved_times(places, change)
    slack = 1e-9 * (np.abs(change).sum() + 1)
    assert abs(moved.sum()) <= slack
    assert (np.abs(moved) <= np.abs(change) + slack).all()
    assert (moved * change >= -slack).all()
    left = change - moved
    assert abs(left.sum() - change.sum()) <= slack
    for kind in ("operator", "module"):  # of what is left, kin goes in one direction alone
        for name in {getattr(place, kind) for place in places}:
            of_kin = left[[getattr(place, kind) == name for place in places]]
            assert np.maximum(of_kin, 0).sum() <= slack or np.maximum(-of_kin, 0).sum() <= slack


def test_an_operator_that_another_module_calls_now():
    places = [CallPlace("old", "mm"), CallPlace("new", "mm"), CallPlace("new", "add")]
    assert moved_times(places, np.array([-100.0, 130.0, 20.0])).tolist() == [-100.0, 100.0, 0.0]
    # Another operator of the same module.
    places = [CallPlace("head", "addmm"), CallPlace("head", "mm"), CallPlace("tail", "mm")]
    assert moved_times(places, np.array([-50.0, 60.0, 0.0])).tolist() == [-50.0, 50.0, 0.0]


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


SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40)), min_size=1, max_size=25)


@settings(max_examples=50, deadline=None)
@given(SPANS, st.lists(st.integers(-5, 110), max_size=6))
def test_steps_without_gaps_add_up_to_own_times(spans, cuts):
    ordered = sorted(spans, key=lambda one: (one[0], -one[1]))
    trace = build_trace([span(f"f{i}", a, a + took) for i, (a, took) in enumerate(ordered)])
    steps = cut_at(*sorted({-10, *cuts, 120}))
    assert by_step(trace, steps).sum(axis=1).tolist() == own_times(trace).tolist()
