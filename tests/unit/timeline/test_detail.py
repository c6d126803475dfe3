"""The part of a recording that was recorded in detail."""

import numpy as np
import pytest

from opscope.columns.metadata_kinds import DETAIL, metadata_problem
from opscope.columns.schema import EventKind
from opscope.timeline.detail import (
    describe_basis,
    detail_text,
    in_detail,
    is_warm,
    latest_bounds,
)
from opscope.timeline.period import Which, detailed_period_of, period_of
from support.build_trace import ORIGIN_NS, build_trace, span, tensor

STEP = "Optimizer.step#SGD.step"
OPTIONS = {"operators": True, "shapes": False, "own_functions": False, "memory": False}


def program(steps, stretches, function=None):
    """Steps of 100 µs; ``stretches``: [first µs, last µs, steps] of each."""
    spans = []
    for at in range(0, 100 * steps, 100):
        is_detailed = any(begin <= at < end for begin, end, _ in stretches)
        if is_detailed:
            frame = ("train.py", 7, "compute")
            spans.append(span("", at, at + 70, kind=EventKind.PYTHON_CALL, frame=frame))
        for begin in (10, 30, 50):
            inputs = [tensor(2, 3)] if is_detailed else []
            spans.append(span("aten::mm", at + begin, at + begin + 15, inputs=inputs))
        spans.append(span(STEP, at + 80, at + 100, kind=EventKind.ANNOTATION))
    found = [
        {"start_ns": ORIGIN_NS + 1000 * a, "end_ns": ORIGIN_NS + 1000 * b, "steps": n}
        for a, b, n in stretches
    ]
    detail = {"options": {**OPTIONS, "shapes": True, "own_functions": True}, "stretches": found}
    whole = {"start_ns": ORIGIN_NS, "end_ns": ORIGIN_NS + 100_000 * steps, "options": OPTIONS}
    return build_trace(spans).with_metadata({**whole, DETAIL: detail})


def test_the_last_stretch_with_whole_steps_is_spoken_of():
    trace = program(30, [(0, 300, 0), (300, 800, 5), (1600, 2100, 5), (2900, 3000, 1)])
    assert metadata_problem(DETAIL, trace.metadata[DETAIL]) == ""
    period = detailed_period_of(trace)
    assert (period.start_ns - ORIGIN_NS, period.wall_ns) == (1_600_000, 500_000)
    assert "part recorded in detail, 500 µs, 5 steps" in str(period)
    assert period.trace.metadata["options"]["shapes"] is True
    names = [trace.event_name(row) for row in period.in_recording(np.arange(5)).tolist()]
    assert names == [period.trace.event_name(row) for row in range(5)]
    assert is_warm(trace)
    assert describe_basis(trace) == "findings of 5 of 30 steps, after warm-up"
    assert "11 steps (1.10 ms) in detail" in detail_text(trace.metadata)


def test_verdicts_speak_of_it_and_tables_of_all_that_was_recorded_throughout():
    trace = program(30, [(300, 1300, 10)])
    assert "10 steps" in trace.verdict().about
    whole = period_of(trace).trace
    assert not len(whole.table("python_calls")) and not len(whole.table("tensors"))
    assert EventKind.PYTHON_CALL not in whole.events["kind"]
    assert set(whole.events["parent"].tolist()) == {-1}
    assert np.count_nonzero(whole.events["name"] == trace.names.find("aten::mm")) >= 3 * 29
    assert period_of(trace, Which.ALL).trace is trace


def test_one_whose_process_was_killed_has_the_steps_that_ended_in_it():
    trace = program(10, [(0, 300, 0), (300, 1000, None)])
    assert is_warm(trace)
    assert describe_basis(trace).startswith("findings of 7 of 10 steps")


@pytest.mark.parametrize(("last", "begins"), [(2000, 300), (2900, 1900)])
def test_without_steps_one_that_the_end_cut_short_is_not_spoken_of(last, begins):
    trace = program(30, [(0, 100, 0), (300, 1300, 0), (1900, last, 0)])
    assert in_detail(trace).events["start_ns"].min() - ORIGIN_NS == 1000 * begins


@pytest.mark.parametrize(("until", "chosen"), [(800, True), (200, False)])
def test_the_start_alone_tells_only_of_a_program_that_is_hardly_more(until, chosen):
    trace = program(10, [(0, until, 0)])
    assert (in_detail(trace) is not trace) == chosen
    assert not is_warm(trace)


def test_without_any_detail_nothing_changes():
    trace = program(10, [])
    assert in_detail(trace) is trace and detail_text(trace.metadata) == ""
    assert describe_basis(trace) == "findings of the whole recording"
    plain = build_trace("aten::mm 0..10")
    assert in_detail(plain) is plain and detailed_period_of(plain).trace is plain


@pytest.mark.parametrize(
    ("stretches", "bounds"),
    [
        ([(0, 20, 0), (30, 40, 4), (60, 90, 5), (95, 99, None)], (60, 90)),
        ([(0, 20, 0), (30, 40, 0), (60, 71, 0), (97, 99, 0)], (60, 71)),  # a service has no steps
        ([(0, 20, 0)], None),
        ([], None),
    ],
)
def test_a_long_trace_is_judged_by_its_last_stretch_that_tells_enough(stretches, bounds):
    keys = ("start_ns", "end_ns", "steps")
    said = [dict(zip(keys, one, strict=True)) for one in stretches]
    assert latest_bounds({"start_ns": 0, DETAIL: {"stretches": said}}) == bounds
