"""The part of a recording that was recorded in detail."""

import numpy as np
import pytest

from opscope.columns.metadata_kinds import BETWEEN, DETAIL, WARM, metadata_problem
from opscope.columns.schema import EventKind
from opscope.timeline.detail import (
    describe_basis,
    detail_text,
    in_detail,
    is_warm,
    latest_bounds,
    share_between,
)
from opscope.timeline.period import Which, detailed_period_of, period_of
from support.build_trace import ORIGIN_NS, build_trace, span, tensor

STEP = "Optimizer.step#SGD.step"
OPTIONS = {"operators": True, "shapes": False, "own_functions": False, "memory": False}


def program(steps, stretches):
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


FEW_STEPS = [5, 15, 25, 35]  # ends, seconds


@pytest.mark.parametrize(
    ("stretches", "last_s", "bounds"),
    [
        ([(0, 20, 0), (30, 40, 4), (60, 90, 5), (95, 99, None)], 35, (60, 90)),
        ([(0, 20, 0), (30, 40, 0), (60, 71, 0), (97, 99, 0)], 35, (60, 71)),  # a service: no steps
        ([(0, 20, 0), (15, 25, 4), (60, 70, 0)], 35, (15, 25)),
        ([(0, 20, 0), (15, 25, 4), (60, 70, 0)], 99, (60, 70)),  # an evaluation of a minute
        ([(0, 20, 0)], 35, None),
        ([], 35, None),
    ],
)
def test_a_long_trace_is_judged_by_its_last_stretch_that_tells_enough(stretches, last_s, bounds):
    keys = ("start_ns", "end_ns", "steps")
    said = [dict(zip(keys, one, strict=True)) for one in stretches]
    second = 1_000_000
    spans = [span(STEP, s * second - 1, s * second, kind=EventKind.ANNOTATION) for s in FEW_STEPS]
    outline = build_trace([span("aten::mm", 0, last_s * second), *spans])
    found = latest_bounds({"start_ns": 0, DETAIL: {"stretches": said}}, lambda: outline)
    assert (found and found[:2]) == bounds
    assert found is None or (found[2].keys() == {WARM, BETWEEN}) == (
        bounds[0] == 60 and last_s > 40
    )


def with_evaluation(took_s, stretches):
    """20 steps of 100 ms, then operators of 100 ms; ``stretches``: [first s, last s, steps]."""
    spans, second = [], 1_000_000
    for at in range(0, 2 * second, second // 10):
        spans.append(span("aten::mm", at, at + 50_000))
        spans.append(span(STEP, at + 60_000, at + 90_000, kind=EventKind.ANNOTATION))
    for at in range(2 * second, int((2 + took_s) * second), second // 10):
        spans.append(span("aten::softmax", at, at + 80_000))
    found = [
        {"start_ns": ORIGIN_NS + int(a * 10**9), "end_ns": ORIGIN_NS + int(b * 10**9), "steps": n}
        for a, b, n in stretches
    ]
    whole = {"start_ns": ORIGIN_NS, "end_ns": ORIGIN_NS + int((2 + took_s) * 10**9)}
    detail = {"options": {**OPTIONS, "shapes": True}, "stretches": found}
    return build_trace(spans).with_metadata({**whole, "options": OPTIONS, DETAIL: detail})


STRETCHES = [(0, 0.25, 0), (0.25, 1, 8), (3, 4, 0)]


def test_a_program_that_mostly_evaluates_is_judged_by_its_evaluation():
    trace = with_evaluation(6, STRETCHES)
    part = in_detail(trace)
    assert {part.event_name(row) for row in range(len(part.events))} == {"aten::softmax"}
    about = str(detailed_period_of(trace))
    assert "after steps, where the program spends 7" in about
    assert "1.00 s of that" in describe_basis(trace)


@pytest.mark.parametrize(
    ("took_s", "stretches"),
    [
        (1.5, [*STRETCHES[:2], (2.2, 3.2, 0)]),  # less than half of its time
        (6, STRETCHES[:2]),  # without detail of the evaluation
    ],
)
def test_otherwise_it_is_judged_by_its_steps(took_s, stretches):
    trace = with_evaluation(took_s, stretches)
    assert "8 steps" in str(detailed_period_of(trace))


def test_steps_that_are_few_and_short_say_how_much_passed_after_them():
    about = str(detailed_period_of(with_evaluation(6, STRETCHES[:2])))
    assert "passed between or after steps" in about and "look there first" in about


@pytest.mark.parametrize(
    ("ends_s", "last_s", "share"),
    [
        ([], 9, 0),
        ([1], 9, 0),
        ([1, 2, 3, 4], 4, 0),
        ([1, 2, 3, 4], 6, 0),  # a longer step, or the program's end
        ([1, 2, 3, 4], 14, 9 / 13),
        ([1, 2, 3, 9, 10, 11], 11, 5 / 10),
        ([1, 1, 1], 1, 0),
        ([1, 2, 3], 1, 0),  # operators that end earlier, as times in a file may say
    ],
)
def test_the_share_of_time_between_steps(ends_s, last_s, share):
    ends_ns = np.array(ends_s, dtype=np.int64) * 10**9
    assert share_between(ends_ns, last_s * 10**9) == pytest.approx(share)
