"""Where a start-up ends, and the parts of a recording: before it, after it, all."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.columns.schema import EventKind
from opscope.errors import UsageError
from opscope.timeline.period import Which, period_of, wall_bounds
from opscope.timeline.steady_state import OVER, find_start_up
from support.build_trace import ORIGIN_NS, build_trace, kernel, span


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


def test_the_steady_state_and_the_start_up_are_all_of_it():
    trace = build_trace(steps(300))
    steady, start_up, whole = (period_of(trace, which) for which in Which)
    assert (start_up.start_ns, start_up.end_ns) == (ORIGIN_NS, ORIGIN_NS + 300_000)
    assert (steady.start_ns, steady.end_ns) == (ORIGIN_NS + 300_000, ORIGIN_NS + 800_000)
    assert steady.wall_ns + start_up.wall_ns == whole.wall_ns == 800_000
    assert len(steady.trace.events) + len(start_up.trace.events) == len(trace.events)
    assert whole.trace is trace


def test_parts_are_made_once_and_keep_no_recording_alive():
    trace = build_trace(steps(300))
    assert period_of(trace).trace is period_of(trace, "steady").trace
    assert vars(trace.period()) is vars(period_of(trace).trace)
    assert trace.period("all") is trace


def test_what_there_is_no_part_of():
    with pytest.raises(UsageError, match=r"no period 'warm'.*steady, start-up, all"):
        period_of(build_trace(steps(300)), "warm")
    with pytest.raises(UsageError, match="no recognisable start-up"):
        period_of(build_trace("aten::mm 0..10"), "start-up")


def test_the_time_reaches_from_the_first_start_to_the_last_end_on_threads_and_devices():
    trace = build_trace("aten::mm 10..20", gpu=[kernel("gemm", 15, 90, launch=0)])
    assert wall_bounds(trace) == (ORIGIN_NS + 10_000, ORIGIN_NS + 90_000)
    assert wall_bounds(build_trace("")) == (0, 0)


def test_each_says_what_it_is():
    trace = build_trace(steps(300))
    assert str(period_of(trace)) == "steady state, 500 µs, 5 steps of the optimizer"
    assert str(period_of(trace, "start-up")) == "start-up, 300 µs"
    assert str(period_of(trace, "all")) == "recording, 800 µs, 6 steps of the optimizer"
    assert str(period_of(build_trace("aten::mm 0..10"))) == "recording, 10.0 µs"
