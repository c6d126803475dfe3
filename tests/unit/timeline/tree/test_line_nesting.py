"""Every instant of a thread is somebody's own time, once."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.columns.schema import EventKind
from opscope.timeline.timeline import place_events
from opscope.timeline.tree.line_nesting import line_nesting, outermost_of, own_times, thread_lines
from support.build_trace import build_trace, span
from support.plain_own_times import covered_ns, plain_own_times


def own_us(trace):
    return own_us_of(line_nesting(trace))


def own_us_of(nesting):
    return (nesting.own_ns // 1000).tolist()


def test_an_annotation_that_outlives_the_call_that_opened_it_counts_once():
    trace = build_trace(
        [
            span("train.py(1): main", 0, 100, kind=EventKind.PYTHON_CALL),
            span("profiler.py(1): __enter__", 10, 14, kind=EventKind.PYTHON_CALL),
            span("Optimizer.step#SGD.step", 12, 60, kind=EventKind.ANNOTATION, parent=1),
            span("aten::add_", 20, 50, parent=0),
        ]
    )
    # The call that opened it overlaps it, and has what passed before.
    assert own_us(trace) == [50, 2, 18, 30]
    assert sum(own_us(trace)) == 100


def random_spans(seed):
    """Spans of three threads that overlap in any way."""
    random = np.random.default_rng(seed)
    kinds = [EventKind.OPERATOR, EventKind.PYTHON_CALL, EventKind.ANNOTATION]
    found = []
    for start in np.sort(random.integers(0, 100, size=60)).tolist():
        end = start + int(random.integers(0, 40))
        kind, thread = kinds[random.integers(3)], f"thread {random.integers(3)}"
        found.append(span("x", start, end, thread, kind=kind, parent=-1))
    return build_trace(found)


@pytest.mark.parametrize("seed", range(6))
def test_own_times_of_a_thread_add_up_to_the_time_in_its_spans(seed):
    trace = random_spans(seed)
    own, thread = own_times(trace), thread_lines(trace)[1]
    assert own.tolist() == plain_own_times(trace).tolist()
    assert [own[thread == one].sum() for one in range(3)] == covered_ns(trace)


def test_a_child_that_ends_late_by_rounding_is_inside_and_has_all_of_its_time():
    trace = build_trace("outer 0..200\n  linear 0..100\n    addmm 10..100\n  mul 150..160")
    late = trace.events["duration_ns"].copy()
    late[2] += 2
    trace = trace.with_tables({"events": trace.events.replaced({"duration_ns": late})})
    assert own_times(trace).tolist() == [89_998, 10_000, 90_002, 10_000]
    assert line_nesting(trace).around.tolist() == [-1, 0, 1, 0]
    assert outermost_of(trace, np.arange(4), np.zeros(4, dtype=np.int64)).tolist() == [
        True, False, False, False,
    ]  # fmt: skip


def test_places_have_lanes_where_spans_do_not_nest():
    assert [line.lane for line in place_events(build_trace("a 0..10\n  b 2..3")).lines] == [0]
    overlapping = build_trace([span("a", 0, 10), span("b", 5, 15, parent=-1)])
    assert [line.lane for line in place_events(overlapping).lines] == [0, 1]
