"""Parts of a recording, and what shares are of."""

from __future__ import annotations

import pytest

from opscope.columns.schema import EventKind
from opscope.errors import UsageError
from opscope.timeline.period import Which, period_of, wall_bounds
from support.build_trace import ORIGIN_NS, build_trace, kernel, span


def training(first=300, count=6, each=100):
    """Steps, of which the first takes longer."""
    spans, at = [], 0
    for i in range(count):
        took = first if i == 0 else each
        spans.append(span("aten::mm", at, at + took / 2))
        spans.append(
            span("Optimizer.step#SGD.step", at + took - 10, at + took, kind=EventKind.ANNOTATION)
        )
        at += took
    return build_trace(spans)


def test_the_steady_state_and_the_start_up_are_all_of_it():
    trace = training()
    steady, start_up, whole = (period_of(trace, which) for which in Which)
    assert (start_up.start_ns, start_up.end_ns) == (ORIGIN_NS, ORIGIN_NS + 300_000)
    assert (steady.start_ns, steady.end_ns) == (ORIGIN_NS + 300_000, ORIGIN_NS + 800_000)
    assert steady.wall_ns + start_up.wall_ns == whole.wall_ns == 800_000
    assert len(steady.trace.events) + len(start_up.trace.events) == len(trace.events)
    assert whole.trace is trace


def test_parts_are_made_once_and_keep_no_recording_alive():
    trace = training()
    assert period_of(trace).trace is period_of(trace, "steady").trace
    assert vars(trace.period()) is vars(period_of(trace).trace)
    assert trace.period("all") is trace


def test_what_there_is_no_part_of():
    with pytest.raises(UsageError, match=r"no period 'warm'.*steady, start-up, all"):
        period_of(training(), "warm")
    with pytest.raises(UsageError, match="no recognisable start-up"):
        period_of(build_trace("aten::mm 0..10"), "start-up")


def test_the_time_reaches_from_the_first_start_to_the_last_end_on_threads_and_devices():
    trace = build_trace("aten::mm 10..20", gpu=[kernel("gemm", 15, 90, launch=0)])
    assert wall_bounds(trace) == (ORIGIN_NS + 10_000, ORIGIN_NS + 90_000)
    assert wall_bounds(build_trace("")) == (0, 0)


def test_each_says_what_it_is():
    trace = training()
    assert str(period_of(trace)) == "steady state, 500 µs, 5 steps of the optimizer"
    assert str(period_of(trace, "start-up")) == "start-up, 300 µs"
    assert str(period_of(trace, "all")) == "recording, 800 µs, 6 steps of the optimizer"
    assert str(period_of(build_trace("aten::mm 0..10"))) == "recording, 10.0 µs"
