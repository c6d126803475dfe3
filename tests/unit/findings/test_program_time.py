"""Times without what recording cost, and without what the program waited for a processor."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.columns.codes import EventKind, WaitsFor
from opscope.columns.ledger import KIND_COST, CostKind
from opscope.findings.find import find_findings
from opscope.findings.program_time import program_time
from opscope.timeline.period import wall_bounds
from support.build_trace import ORIGIN_NS, build_trace, kernel, span
from support.thread_samples import sampled as samples

MAIN = 1001
"""What ``build_trace`` calls the first thread in the system."""

COSTS = {
    CostKind.OPERATOR: 250.0,
    CostKind.INNER_OPERATOR: 100.0,
    CostKind.TENSOR: 30.0,
    CostKind.PYTHON_CALL: 150.0,
}
IN_PROGRAMS = 1.3
"""Of what was measured, it is so much more where caches hold what is needed."""

KNOWN_COST = {"recorder": {f"{KIND_COST}{kind.value}": ns for kind, ns in COSTS.items()}}
CALL = {"kind": EventKind.PYTHON_CALL}


def sampled(trace, *rows):
    """With samples of the main thread: (µs, µs computed, µs delayed)."""
    milliseconds = ([us / 1000 for us in row] for row in rows)
    return samples(trace, *((MAIN, *row, 0, WaitsFor.NOTHING) for row in milliseconds))


def wall_us(trace):
    first, last = wall_bounds(trace)
    return (last - first) / 1000


def test_a_trace_that_says_nothing_of_its_cost_stays_as_it_is():
    trace = build_trace("aten::mm 0..100, aten::add 110..120")
    assert program_time(trace) is trace
    empty = build_trace([], ledger=KNOWN_COST)
    assert program_time(empty) is empty


def test_work_of_a_device_takes_no_longer_for_being_recorded():
    spans = [span("aten::mm", 0, 100), span("aten::add", 10, 20)]
    trace = build_trace(spans, gpu=[kernel("gemm", 110, 190)], ledger=KNOWN_COST)
    alone = program_time(trace)
    assert alone.events["duration_ns"][0] < 100_000
    assert alone.table("gpu")["duration_ns"][0] == pytest.approx(80_000, rel=0.01)


def test_what_recording_costs_is_between_the_spans():
    spans = [span("aten::add", 10 * i, 10 * i + 4) for i in range(100)]
    trace = build_trace(spans, ledger=KNOWN_COST)
    alone = program_time(trace)
    assert (alone.events["duration_ns"] == trace.events["duration_ns"]).all()
    assert wall_us(trace) - wall_us(alone) == pytest.approx(99 * 0.25 * IN_PROGRAMS, rel=0.02)


def test_an_operator_in_another_costs_less_than_one_that_python_calls():
    pairs = [(10 * i, 10 * i + 8, 10 * i + 2, 10 * i + 6) for i in range(100)]
    both = [
        one
        for first, last, begin, end in pairs
        for one in (span("aten::t", first, last), span("aten::transpose", begin, end))
    ]
    trace = build_trace(both, ledger=KNOWN_COST)
    # What is inside counts between the two, so that the outer one becomes shorter.
    inner = 0.1 * IN_PROGRAMS
    took = program_time(trace).events["duration_ns"][10::2] / 1000
    assert took == pytest.approx(np.full(95, 8 - inner), rel=0.02)


def test_waiting_for_a_processor_is_taken_from_where_it_was():
    spans = [span("aten::mm", 1000 * i, 1000 * i + 900) for i in range(9)]
    spans.append(span("aten::mm", 9_000, 14_000))
    trace = sampled(build_trace(spans), (0, 0, 0), (7_000, 7_000, 0), (14_000, 10_000, 4_000))
    took = program_time(trace).events["duration_ns"] / 1000
    assert took[:7] == pytest.approx([900] * 7)
    assert took[9] == pytest.approx(1_200, rel=0.2)
    assert wall_us(program_time(trace)) == pytest.approx(10_000, rel=0.01)


def test_findings_speak_of_the_program_and_still_say_that_the_machine_was_busy():
    spans = [span("aten::add", 10 * i, 10 * i + 2) for i in range(1_000)]
    trace = sampled(build_trace(spans, ledger=KNOWN_COST), (0, 0, 0), (10_000, 5_000, 5_000))
    findings = find_findings(trace)
    assert findings.waited_share == 0.5
    assert findings.wall_ns == pytest.approx(5_000_000 - 1_000 * 250 * IN_PROGRAMS, rel=0.01)
    assert all(0 <= (one.saved_share or 0) <= 1 for one in findings)


def test_opening_the_window_is_no_time_of_the_function_that_does_it():
    main = span("main", 0, 30_000, frame=("train.py", 1, "main"), **CALL)
    spans = [main, span("aten::mm", 8_000, 9_000), span("aten::mm", 29_000, 30_000)]
    opened = build_trace(spans, ledger=KNOWN_COST, metadata={"start_ns": ORIGIN_NS})
    assert wall_us(program_time(opened)) == pytest.approx(22_000, rel=0.01)
    divided = sampled(opened, *((at, at, 0) for at in (0, 3_000, 6_000, 30_000)))
    assert wall_us(program_time(divided)) == pytest.approx(22_000, rel=0.01)
    part = build_trace(spans, ledger=KNOWN_COST, metadata={"start_ns": ORIGIN_NS - 1_000})
    assert wall_us(program_time(part)) == pytest.approx(30_000, rel=0.01), "it begins in the middle"
