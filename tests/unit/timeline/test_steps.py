"""Steps: the spans themselves, and what started in each."""

from opscope.timeline.steps import find_steps, step_of_events
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
        ("worker op", 40, 200, "worker"), ("between", 150, 160), ("ProfilerStep#4", 200, 200),
    ]  # fmt: skip
    trace = build_trace([span(*given, step=-1) for given in spans])

    assert step_of_events(trace).tolist() == [-1, 3, 3, 3, -1, 4]


def test_recorded_membership_wins():
    trace = build_trace([span("ProfilerStep#3", 0, 10, step=5), span("aten::mm", 20, 30, step=5)])

    assert step_of_events(trace).tolist() == [5, 5]


def test_without_steps():
    trace = build_trace("aten::mm 0..10")

    assert len(find_steps(trace)) == 0
    assert step_of_events(trace).tolist() == [-1]
