"""Every instant of a thread is somebody's own time, once."""

from __future__ import annotations

import numpy as np
import pytest

from opscope import _native
from opscope.trace.schema import EventKind
from opscope.tree import own_time
from opscope.tree.event_tree import event_tree
from opscope.tree.own_time import around_by_time, outermost_of, own_times
from opscope.tree.self_time import self_times
from opscope.tree.timeline import place_events
from support.build_trace import ORIGIN_NS, build_trace, span


def own_us(trace):
    return (own_times(trace) // 1000).tolist()


def test_spans_that_nest_have_what_their_children_leave():
    trace = build_trace("step 0..100\n  aten::mm 10..40\n    inner 10..20\n  aten::add 40..40")
    assert own_us(trace) == [70, 20, 10, 0]
    assert own_times(trace).tolist() == self_times(event_tree(trace)).tolist()


def test_an_annotation_that_outlives_the_call_that_opened_it_counts_once():
    trace = build_trace(
        [
            span("train.py(1): main", 0, 100, kind=EventKind.PYTHON_CALL),
            span("profiler.py(1): __enter__", 10, 14, kind=EventKind.PYTHON_CALL),
            span("Optimizer.step#SGD.step", 12, 60, kind=EventKind.ANNOTATION, parent=1),
            span("aten::add_", 20, 50, parent=0),
        ]
    )
    # The call that opened it overlaps it and has left the line: nobody knows what is its own.
    assert own_us(trace) == [52, 0, 18, 30]
    assert sum(own_us(trace)) == 100


def test_threads_count_apart():
    trace = build_trace([span("a", 0, 50), span("b", 10, 90, "other"), span("c", 20, 30)])
    assert own_us(trace) == [40, 80, 10]


def test_spans_without_a_duration_contain_nothing():
    trace = build_trace([span("a", 0, 10), span("b", 5, 5), span("c", 5, 5), span("d", 5, 8)])
    assert own_us(trace) == [7, 0, 0, 3]


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


@pytest.mark.parametrize("seed", range(20))
def test_own_times_of_a_line_add_up_to_the_time_in_its_spans(seed):
    trace = random_spans(seed)
    placement, own, start = place_events(trace), own_times(trace), trace.events["start_ns"]
    end = start + placement.duration_ns
    assert (own >= 0).all()
    for number, line in enumerate(placement.lines):
        rows = np.flatnonzero(placement.line == number)
        moments = range(ORIGIN_NS, ORIGIN_NS + 200_000, 1000)
        covered = sum(1000 for at in moments if ((start[rows] <= at) & (at < end[rows])).any())
        assert own[rows].sum() == (covered if line.lane == 0 else 0)


def test_a_function_that_calls_itself_is_one_stretch():
    trace = build_trace("f 0..100\n  f 10..90\n    g 20..80\n      f 30..40\nf 100..120")
    names = trace.events["name"].astype(np.int64)
    rows = np.arange(5)
    assert outermost_of(trace, rows, names).tolist() == [True, False, True, False, True]
    assert outermost_of(trace, rows[1:], names[1:]).tolist() == [True, True, False, True]
    assert outermost_of(build_trace(""), rows[:0], names[:0]).tolist() == []


@pytest.mark.parametrize("seed", range(20))
def test_what_is_around_a_span_is_the_latest_one_a_level_up(seed):
    """As many spans are open where it begins as it has around it, however they overlap."""
    random = np.random.default_rng(seed)
    start = np.sort(random.integers(0, 60, size=50)).astype(np.int64)
    took = random.integers(0, 30, size=50).astype(np.int64)
    level = [int((start[:i] + took[:i] > start[i]).sum()) for i in range(50)]
    expected = [
        max((j for j in range(i) if level[j] == level[i] - 1), default=-1) for i in range(50)
    ]
    assert around_by_time(start, took).tolist() == expected


def random_nesting(seed, lines=3, spans=60):
    """Start, duration and line of spans that nest on their lines; some take no time."""
    random = np.random.default_rng(seed)
    open_on, start, end, line = [[] for _ in range(lines)], [], [], []
    for moment in range(2 * spans):
        on = int(random.integers(lines))
        if open_on[on] and random.random() < 0.5:
            end[open_on[on].pop()] = moment
            continue
        line.append(on)
        start.append(moment)
        end.append(moment if random.random() < 0.1 else 2 * spans)
        if end[-1] > moment:
            open_on[on].append(len(start) - 1)
    took = np.array(end, dtype=np.int64) - start
    return np.array(start, dtype=np.int64), took, np.array(line, dtype=np.int32)


@pytest.mark.parametrize("seed", range(20))
def test_spans_that_nest_are_gone_over_once_for_all_lines(seed):
    start, took, line = random_nesting(seed)
    expected = np.full(len(start), -1)
    for rows in (np.flatnonzero(line == one) for one in range(3)):
        expected[rows] = np.append(rows, -1)[around_by_time(start[rows], took[rows])]
    inside = [took[expected == row].sum() for row in range(len(start))]

    around, own = _native.nest_on_lines(start, took, line, 3, None)

    assert around.tolist() == expected.tolist() and own.tolist() == (took - inside).tolist()
    # Those on further lines are left out, and change nothing of the others.
    around_of_two, own_of_two = _native.nest_on_lines(start, took, line, 2, None)
    is_there = line < 2
    assert around_of_two.tolist() == np.where(is_there, around, -1).tolist()
    assert own_of_two.tolist() == np.where(is_there, own, 0).tolist()
    # In any order of rows it is the same.
    mixed = np.random.default_rng(seed).permutation(len(start))
    place = np.argsort(mixed)
    by_start = np.argsort(start[mixed])
    around_mixed, own_mixed = _native.nest_on_lines(
        start[mixed], took[mixed], line[mixed], 3, by_start
    )
    assert own_mixed[place].tolist() == own.tolist()
    original = np.append(mixed, -1)[around_mixed]
    assert original[place].tolist() == around.tolist()


def test_what_overlaps_or_takes_less_than_no_time_is_left_to_who_finds_it_a_place():
    line = np.zeros(2, dtype=np.int32)
    for start, took in (([0, 5], [10, 6]), ([0, 5], [10, -1])):
        columns = (np.array(start, dtype=np.int64), np.array(took, dtype=np.int64))
        assert _native.nest_on_lines(*columns, line, 1, None) is None
        apart = np.array([0, 1], dtype=np.int32)
        assert (_native.nest_on_lines(*columns, apart, 2, None) is None) == (took[1] < 0)


def test_places_say_whether_spans_nest():
    assert place_events(build_trace("a 0..10\n  b 2..3")).nested is not None
    overlapping = [span("a", 0, 10), span("b", 5, 15, parent=-1)]
    placement = place_events(build_trace(overlapping))
    assert placement.nested is None
    assert [line.lane for line in placement.lines] == [0, 1]


def test_part_of_a_trace_whose_spans_do_not_nest_is_counted_line_by_line():
    """On the lines of a whole, on which nothing had to leave its own."""
    trace = build_trace([span("a", 0, 10), span("b", 5, 15, parent=-1), span("c", 6, 8, "other")])
    lines = place_events(trace).lines[:2]
    line = np.array([0, 0, 1], dtype=np.int32)
    took = event_tree(trace).duration_ns
    nested = own_time._on_lines(trace, own_time.Placement(lines, line, took, None))
    assert nested.around.tolist() == [-1, 0, -1]
    assert (nested.own_ns // 1000).tolist() == [0, 10, 2]
