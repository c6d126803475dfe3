"""The steps of programs that mark none."""

from __future__ import annotations

from opscope.columns.schema import EventKind
from opscope.report.page import report_html
from opscope.timeline.program_steps import OF_NETWORK, OF_OPTIMIZER, OF_SCHEDULE, program_steps
from opscope.timeline.step_times import step_times
from support.build_trace import ORIGIN_NS, build_trace, span
from support.read_report import read_report

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


def test_the_report_has_them_and_says_what_they_are():
    section = read_report(report_html(build_trace(optimized(4)))).data["steps"]
    assert section["what"] == OF_OPTIMIZER
    assert section["duration"] == [100_000] * 3
