"""Where a start-up ends, and what is left of a trace after it."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.columns.schema import EventKind
from opscope.timeline.period import period_of
from opscope.timeline.steady_state import OVER, find_start_up
from support.build_trace import ORIGIN_NS, build_trace, span


def steps(first, count=6, begin=0, kind=EventKind.ANNOTATION):
    """Steps of 100 µs after one that takes ``first``."""
    spans, at = [], begin
    for i in range(count):
        took = first if i == 0 else 100
        spans.append(span("aten::mm", at, at + took / 2))
        spans.append(span("Optimizer.step#SGD.step", at + took - 10, at + took, kind=kind))
        at += took
    return spans


def test_it_ends_with_the_first_step_of_the_optimizer():
    trace = build_trace(steps(200))
    found = find_start_up(trace)
    assert found.took_ns == 200_000
    assert "first step" in found.ends_with
    assert found.imports_ns == -1
    steady = period_of(trace)
    assert len(steady.trace.events) == 10
    assert steady.in_recording(np.arange(10)).tolist() == list(range(2, 12))


def test_a_few_steps_after_long_imports_are_the_steady_state():
    name = "<frozen importlib._bootstrap>(1165): _find_and_load"

    def trace_of(importing):
        before = span(name, 0, importing, kind=EventKind.PYTHON_CALL)
        return build_trace([before, *steps(2_000, begin=9_000)])

    found = find_start_up(trace_of(9_000))
    assert found.took_ns == 11_000_000
    assert found.imports_ns == 9_000_000
    assert find_start_up(trace_of(6_000)).took_ns == 0  # 5 ms of something else, 0.5 ms of steps


def program(until):
    frame = ("train.py", 1, "<module>")  # recorded by frame alone
    return span("", 0, until, kind=EventKind.PYTHON_CALL, frame=frame)


def test_what_runs_after_the_program_is_left_out():
    leaving = [span("atexit", 700, 900, kind=EventKind.C_CALL)]
    trace = build_trace([program(700), *steps(200), *leaving])
    found = find_start_up(trace)
    assert (found.over_ns - ORIGIN_NS, found.exit_ns) == (700_000, 200_000)
    assert "200 µs after its end" in str(found)
    assert period_of(trace).wall_ns == 500_000
    assert period_of(trace, "all").wall_ns == 900_000


def test_a_program_with_a_thread_that_goes_on_is_not_over():
    others = [span("aten::mm", 750, 900, thread="other")]
    trace = build_trace([program(700), *steps(200), *others])
    assert find_start_up(trace).over_ns == 0
    assert find_start_up(build_trace([program(700), *steps(200)])).over_ns == 0
    assert find_start_up(build_trace(steps(200))).over_ns == 0


def test_what_runs_after_the_noted_end_is_left_out_on_all_threads():
    others = [span("aten::mm", 750, 950, thread="other"), span("atexit", 800, 900)]
    trace = build_trace([span("aten::add", 0, 600), *others])
    assert not find_start_up(trace).is_any
    over = trace.with_metadata({OVER: ORIGIN_NS + 700_000})
    found = find_start_up(over)
    assert (found.took_ns, found.exit_ns) == (0, 250_000)
    assert str(found) == "shut-down, 250 µs"
    assert period_of(over).wall_ns == 600_000
    assert period_of(over, "all").wall_ns == 950_000


@pytest.mark.parametrize("over", [-10, 1_000])
def test_a_noted_end_with_nothing_before_or_after_leaves_nothing_out(over):
    trace = build_trace(steps(100)).with_metadata({OVER: ORIGIN_NS + over * 1_000})
    assert find_start_up(trace).exit_ns == 0


def saving(begin, end):
    return span("save", begin, end, kind=EventKind.C_CALL)


def test_what_comes_after_the_last_step_is_left_out():
    trace = build_trace([*steps(100, count=8), saving(800, 950)])
    found = find_start_up(trace)
    assert (found.over_ns - ORIGIN_NS, found.exit_ns) == (800_000, 150_000)
    assert period_of(trace).end_ns == ORIGIN_NS + 800_000


@pytest.mark.parametrize(
    "after",
    [
        [span("aten::mm", 800, 900), saving(900, 950)],  # an evaluation
        [saving(800, 2_000)],  # what the program is for, perhaps
        [saving(800, 810)],
    ],
)
def test_but_nothing_that_may_be_more_than_leaving(after):
    assert find_start_up(build_trace([*steps(100, count=8), *after])).exit_ns == 0
