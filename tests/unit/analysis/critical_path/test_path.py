"""The critical path of programs whose machine was simulated, and of graphs against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from opscope import _native
from opscope.analysis.critical_path.path import NOT_IN_GRAPH, find_critical_path
from opscope.analysis.critical_path.what_if import find_what_if
from opscope.columns.codes import EventKind
from opscope.columns.schema import RecordScope
from opscope.errors import UsageError
from support.build_trace import build_trace, kernel, span
from support.simulated_programs import random_program, run


def test_a_graph_in_another_order_is_refused():
    before = np.array([[1, -1, -1], [-1, -1, -1]], dtype=np.int64)
    none = np.zeros((2, 3), dtype=np.int64)
    with pytest.raises(ValueError, match="before one that it depends on"):
        _native.earliest_ends(before, none, np.ones(2, dtype=np.int64), 0)
    with pytest.raises(ValueError, match="different lengths"):
        _native.latest_ends(before, none, np.ones(3, dtype=np.int64), 0)


@pytest.mark.parametrize("seed", range(15))
def test_the_path_is_as_long_as_the_program(seed):
    took_us, trace = run(random_program(seed))
    path = find_critical_path(trace)
    assert path.wall_ns == took_us * 1000
    assert path.length_ns == pytest.approx(path.wall_ns, rel=0.01)
    assert sum(time for _, time in path.by_name()) == path.length_ns


def test_a_wait_for_a_device_leads_to_its_work():
    trace = build_trace(
        [
            span("aten::mm", 0, 20),
            span("cudaLaunchKernel", 10, 15, kind=EventKind.RUNTIME_CALL),
            span("aten::add", 20, 60),
            span("cudaDeviceSynchronize", 60, 200, kind=EventKind.RUNTIME_CALL),
        ],
        gpu=[kernel("gemm", 16, 199, launch=1)],
    )
    path = find_critical_path(trace)
    assert dict(path.by_thread()) == {"main": 16_000, "cuda:0 stream 7": 184_000}
    slack = path.slack_ns.tolist()
    assert slack[2] == 140_000, "what ran beside the kernel had time until the wait was over"
    assert slack[1] == 0


def test_a_thread_that_waits_for_a_backward_pass_leads_to_the_thread_that_runs_it():
    backward = {"scope": RecordScope.BACKWARD_FUNCTION, "thread": "autograd"}
    trace = build_trace(
        [
            span("aten::mm", 0, 100),
            span("MmBackward0", 110, 500, **backward),
            span("aten::add_", 510, 600),
        ]
    )
    path = find_critical_path(trace)
    by_thread = dict(path.by_thread())
    assert by_thread["autograd"] == 390_000, "without the call before it, and the delay behind"
    assert path.length_ns == 600_000


def test_a_backward_pass_begins_when_it_is_called():
    backward = {"scope": RecordScope.BACKWARD_FUNCTION, "thread": "autograd"}
    steps = [
        (
            span("aten::mm", start, start + 100),
            span("MmBackward0", start + 110, start + 300, **backward),
            span("AccumulateGrad", start + 305, start + 500, **backward),
            span("aten::add_", start + 510, start + 600),
        )
        for start in range(0, 3000, 600)
    ]
    trace = build_trace([one for step in steps for one in step])
    without_forward = find_what_if(trace, {"aten::mm": 0.0}, "all")
    assert without_forward.before_ns == 3_000_000
    assert without_forward.saved_ns == 5 * 100_000
    assert find_what_if(trace, {"MmBackward0": 0.0}, "all").saved_ns == 5 * 190_000


@pytest.mark.parametrize(("busy_from", "path_leads_there"), [(110, True), (480, False)])
def test_who_is_waited_for_was_busy_most_of_the_wait(busy_from, path_leads_there):
    trace = build_trace(
        [
            span("aten::mm", 0, 100),
            span("<built-in method acquire of _thread.lock object at 0x1>", 100, 500,
                 kind=EventKind.C_CALL),
            span("work", busy_from, 498, thread="other"),
            span("aten::add", 500, 600),
        ]
    )  # fmt: skip
    path = find_critical_path(trace)
    assert ("other" in dict(path.by_thread())) is path_leads_there
    assert path.length_ns == 600_000


def test_asynchronous_spans_are_not_in_the_graph():
    trace = build_trace("a 0..20\nb 10..30")
    assert NOT_IN_GRAPH not in find_critical_path(trace).slack_ns.tolist()
    is_async = np.array([True, False])
    trace = trace.with_tables({"events": trace.events.replaced({"is_async": is_async})})
    assert NOT_IN_GRAPH in find_critical_path(trace).slack_ns.tolist()


def test_of_nothing_there_is_no_path():
    path = find_critical_path(build_trace(""))
    assert (path.length_ns, path.by_name()) == (0, [])
    with pytest.raises(UsageError, match="no period"):
        find_critical_path(build_trace(""), "middle")
