"""Steps: the spans themselves, and what started in each."""

from __future__ import annotations

import pytest

from opscope.columns.metadata_kinds import STEPS, metadata_problem
from opscope.columns.schema import EventKind
from opscope.timeline.period import period_of
from opscope.timeline.step_times import step_times
from opscope.timeline.steps import (
    OF_NETWORK,
    OF_OPTIMIZER,
    OF_SCHEDULE,
    describe_step_boundaries,
    find_steps,
    program_steps,
    share_of_program,
    step_of_events,
)
from support.build_trace import ORIGIN_NS, build_trace, span


def test_steps_are_found_by_name():
    trace = build_trace("""
        ProfilerStep#7        0..100
          aten::mm           10..20
        ProfilerStep#8      100..250
        ProfilerStepsomething 300..400
    """)

    steps = find_steps(trace)

    assert steps.number.tolist() == [7, 8]
    assert steps.event.tolist() == [0, 2]
    assert ((steps.start_ns - ORIGIN_NS) // 1000).tolist() == [0, 100]
    assert ((steps.end_ns - ORIGIN_NS) // 1000).tolist() == [100, 250]


def test_a_number_that_no_step_has_is_none():
    names = ["ProfilerStep#99999999999999999999", "ProfilerStep#-1", "ProfilerStep#8"]
    trace = build_trace([span(name, 0, 10, step=-1) for name in names])

    assert find_steps(trace).number.tolist() == [8]


def test_membership_is_by_start_on_any_thread_where_it_was_not_recorded():
    spans = [
        ("before", 0, 5), ("ProfilerStep#3", 10, 100), ("aten::mm", 20, 30),
        ("worker op", 40, 200, "worker"), ("at its end", 100, 110), ("between", 150, 160),
        ("ProfilerStep#4", 200, 200),
    ]  # fmt: skip
    trace = build_trace([span(*given, step=-1) for given in spans])

    assert step_of_events(trace).tolist() == [-1, 3, 3, 3, -1, -1, 4]

    recorded = build_trace(
        [span("ProfilerStep#3", 0, 10, step=5), span("aten::mm", 20, 30, step=5)]
    )
    assert step_of_events(recorded).tolist() == [5, 5], "what was recorded wins"
    assert step_of_events(build_trace("aten::mm 0..10")).tolist() == [-1]


ANNOTATION = {"kind": EventKind.ANNOTATION}


def optimized(count):
    return [
        one
        for i in range(count)
        for one in (
            span("aten::mm", i * 100, i * 100 + 40 + i),
            span("Optimizer.step#SGD.step", i * 100 + 80, i * 100 + 90, **ANNOTATION),
        )
    ]


def test_a_step_ends_where_the_optimizers_does():
    trace = build_trace(optimized(4))
    steps, what = program_steps(trace)
    assert what == OF_OPTIMIZER
    assert (steps.start_ns - ORIGIN_NS).tolist() == [90_000, 190_000, 290_000]
    assert (steps.end_ns - ORIGIN_NS).tolist() == [190_000, 290_000, 390_000]
    times = step_times(trace, steps=steps)
    assert times.labels[0] == "aten::mm"
    assert times.label_ns[:, 0].tolist() == [41_000, 42_000, 43_000]


def test_steps_of_several_threads_follow_one_another_as_they_end():
    ends = {"one": (60, 170, 260), "two": (90, 180, 300)}
    spans = [
        span("Optimizer.step#SGD.step", end - (60 if end == 180 else 5), end, thread, **ANNOTATION)
        for thread, of_thread in ends.items()
        for end in of_thread
    ]
    steps, what = program_steps(build_trace(sorted(spans, key=lambda one: one.start)))
    assert what == OF_OPTIMIZER
    assert (steps.start_ns - ORIGIN_NS).tolist() == [60_000, 90_000, 170_000, 180_000, 260_000]
    assert (steps.end_ns - ORIGIN_NS).tolist() == [90_000, 170_000, 180_000, 260_000, 300_000]


def test_without_an_optimizer_calls_of_the_network_are_steps():
    def call(start):
        return [
            span("Net_0", start, start + 50, kind=EventKind.MODULE_CALL, module="Net_0"),
            span("Linear_0", start + 1, start + 9, kind=EventKind.MODULE_CALL, module="Linear_0"),
        ]

    steps, what = program_steps(build_trace([*call(0), *call(60), *call(200)]))
    assert what == OF_NETWORK
    assert (steps.start_ns - ORIGIN_NS).tolist() == [0, 60_000, 200_000]
    assert (steps.end_ns - ORIGIN_NS).tolist() == [60_000, 200_000, 250_000]


def test_marked_steps_come_first_and_one_alone_is_none():
    marked = build_trace([span("ProfilerStep#7", 0, 500, **ANNOTATION), *optimized(4)])
    steps, what = program_steps(marked)
    assert what == OF_SCHEDULE and steps.number.tolist() == [7]
    assert len(program_steps(build_trace(optimized(1)))[0]) == 0


def recorded(ended=0, passed_us=0):
    """Four ends of steps of 100 µs, of a program in which so many ended within so long."""
    name = "Optimizer.step#SGD.step"
    trace = build_trace(
        [span(name, 100 * n + 50, 100 * n + 100, kind=EventKind.ANNOTATION) for n in range(4)]
    )
    seen = {"ended": ended, "passed_ns": 1000 * passed_us}
    return trace.with_metadata({STEPS: seen}) if ended else trace


@pytest.mark.parametrize(
    ("ended", "passed_us", "share", "is_said"),
    [
        (101, 50_000, 0.2, True),  # steps in bursts
        (101, 10_400, 10 / 10.4, False),  # one after the other
        (101, 9_000, 1, False),
        (0, 0, None, False),  # too little was seen
        (1, 10, None, False),
        (5, 0, None, False),
    ],
)
def test_steps_are_a_share_of_the_program(ended, passed_us, share, is_said):
    trace = recorded(ended, passed_us)
    assert share_of_program(trace) == (share and pytest.approx(share))
    said = describe_step_boundaries(trace)
    assert bool(said) == is_said == ("(" in str(period_of(trace)))
    if is_said:
        assert "20% of the program's time" in said and "80% passed between or after steps" in said
        assert "look there first" in said and said in str(period_of(trace))


def test_what_is_no_account_of_steps_is_not_read():
    assert not metadata_problem(STEPS, {"ended": 2, "passed_ns": 2})
    for value in (3, {}, {"ended": -1, "passed_ns": 2}, {"ended": 1}):
        assert metadata_problem(STEPS, value)
