"""Operators that take what their work takes, and waits for devices that take nothing."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.analysis.critical_path.graph import wait_graph
from opscope.analysis.findings.find import find_findings
from opscope.analysis.findings.in_turn import in_turn
from opscope.analysis.findings.replayed import Fix, Takes, apply_fixes, factors_alone, saved_share
from opscope.analysis.findings.unrecorded import Clock
from opscope.analysis.period import period_of
from opscope.trace.codes import EventKind
from support.build_trace import ORIGIN_NS, build_trace, kernel, span

CALL = EventKind.RUNTIME_CALL
LAUNCHES = [
    span("aten::mm", 0, 10),
    span("cudaLaunchKernel", 2, 8, kind=CALL),
    span("aten::add", 10, 20),
    span("cudaLaunchKernel", 12, 18, kind=CALL),
]
WAITING = span("cudaDeviceSynchronize", 20, 200, kind=CALL)
WORK = [kernel("gemm", 10, 110, launch=1), kernel("add", 110, 196, launch=3)]


def made(*, waits=True):
    return build_trace([*LAUNCHES, *([WAITING] if waits else [])], gpu=WORK)


def at_other_times(trace, alone=None):
    return in_turn(trace, wait_graph(period_of(trace, "all")), alone)


def test_an_operator_takes_what_its_work_takes():
    took = at_other_times(made()).events["duration_ns"] / 1000
    assert took[0] == pytest.approx(110)
    assert took[2] == pytest.approx(10 + 86)


def test_whoever_waits_for_the_device_waits_no_more():
    took = at_other_times(made()).events["duration_ns"] / 1000
    assert took[4] < 5


def test_work_is_where_it_was_launched():
    times = at_other_times(made())
    gpu = times.table("gpu")
    launched = (gpu["start_ns"] - ORIGIN_NS) / 1000
    assert launched.tolist() == pytest.approx([8, 100 + 18])
    assert (gpu["duration_ns"] / 1000).tolist() == pytest.approx([100, 86])


def test_a_copy_that_the_call_waited_for_counts_once():
    copied = span("cudaMemcpyAsync", 2, 98, kind=CALL)
    trace = build_trace(
        [span("aten::copy_", 0, 100), copied], gpu=[kernel("copy", 4, 98, launch=1, kind=1)]
    )
    assert at_other_times(trace).events["duration_ns"][0] == pytest.approx(100_000, abs=100)


def test_time_of_recording_goes_as_well():
    trace = made()
    halved = Clock(trace.events["start_ns"][[0, 4]], np.array([10_000.0]))  # until it waits
    took = at_other_times(trace, halved).events["duration_ns"] / 1000
    assert took[0] == pytest.approx(100 + 5)


def shares(trace, *fixes, alone=None):
    graph = wait_graph(period_of(trace, "all"))
    return saved_share(graph, factors_alone(graph, alone), apply_fixes(graph, fixes))


def test_what_the_device_does_sooner_is_saved_where_it_is_waited_for():
    trace = made()
    assert shares(trace, Fix([0, 2], 0.5, Takes.WORK)) == pytest.approx(93 / 200, abs=0.02)
    assert shares(trace, Fix([0, 2], 0.5, Takes.HOST)) < 0.05


def test_nothing_changes_without_a_fix():
    assert shares(made()) == 0
    assert shares(made(), Fix([], 0.0)) == 0


def test_a_call_that_waits_no_more_lets_the_host_go_on():
    late = span("aten::sum", 200, 400)  # of the host
    trace = build_trace([*LAUNCHES, WAITING, late], gpu=WORK)
    assert shares(trace, Fix([4], 1.0, Takes.HOST)) == pytest.approx(180 / 400, abs=0.03)
    assert shares(trace, Fix([4], 1.0, Takes.WORK)) == 0


def test_the_smaller_of_two_fixes_of_one_event_counts():
    trace = made()
    both = shares(trace, Fix([0], 0.5, Takes.WORK), Fix([0], 0.1, Takes.WORK))
    assert both == pytest.approx(shares(trace, Fix([0], 0.1, Takes.WORK)))


def test_shares_are_of_the_time_of_the_program_alone():
    spans = [*LAUNCHES, span("aten::sum", 20, 420)]
    trace = build_trace(spans, gpu=WORK)
    moments = ORIGIN_NS + np.array([0, 20_000, 420_000])
    opening = Clock(moments, np.array([20_000.0, 200_000.0]))
    fix = Fix([4], 0.0)
    assert shares(trace, fix) == pytest.approx((420 - 196) / 420, abs=0.02)
    assert shares(trace, fix, alone=opening) == pytest.approx((220 - 196) / 220, abs=0.02)


def test_waiting_for_the_end_is_nothing_to_change():
    found = {one.id: one for one in find_findings(made(), which="all")}
    assert "implicit-synchronisation" not in found
    assert "time-outside-torch" not in found


def test_waiting_before_more_is_launched_is():
    again = [
        span("aten::mul", 200, 210),
        span("cudaLaunchKernel", 202, 208, kind=CALL),
    ]
    trace = build_trace(
        [*LAUNCHES, WAITING, *again], gpu=[*WORK, kernel("mul", 210, 220, launch=6)]
    )
    found = {one.id: one for one in find_findings(trace, which="all")}
    assert found["implicit-synchronisation"].events.tolist() == [4]
    assert found["implicit-synchronisation"].saved_ns > 0


def test_a_backward_pass_waits_in_a_thread_of_its_own():
    node = "autograd::engine::evaluate_function: MulBackward0"
    trace = build_trace(
        [
            span("aten::mm", 0, 10),
            span("backward", 20, 320, kind=EventKind.C_CALL),
            span(node, 30, 310, "engine"),
            span("cudaLaunchKernel", 32, 40, "engine", kind=CALL),
            span("cudaStreamSynchronize", 60, 300, "engine", kind=CALL),
            span("aten::add", 330, 340),
        ],
        gpu=[kernel("gemm", 45, 299, launch=3)],
    )
    took = at_other_times(trace).events["duration_ns"] / 1000
    assert took[2] == pytest.approx(280 - 240 + 254, abs=2)
    assert took[4] < 2


def test_a_thread_that_serves_waits_for_itself():
    """What it waits for holds nobody up, and time goes on for the program meanwhile."""
    trace = build_trace(
        [
            span("aten::mm", 0, 10),
            span("cudaLaunchKernel", 2, 8, kind=CALL),
            span("aten::sin", 20, 220),
            span("cudaStreamSynchronize", 25, 200, "server", kind=CALL),
            span("aten::add", 230, 240),
        ],
        gpu=[kernel("gemm", 10, 198, launch=1)],
    )
    assert at_other_times(trace).events["duration_ns"][2] == pytest.approx(200_000, abs=10)
