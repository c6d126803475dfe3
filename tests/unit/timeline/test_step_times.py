"""Steps side by side: durations, phases, operators."""

from __future__ import annotations

from opscope.columns.schema import EventKind, RecordScope
from opscope.timeline.phases import Phase
from opscope.timeline.step_times import step_times
from support.build_trace import build_trace, span


def two_steps():
    return build_trace(
        [
            span("ProfilerStep#3", 0, 100),
            span("aten::mm", 10, 40),
            span("aten::relu", 40, 45),
            span("MmBackward0", 41, 60, "autograd", scope=RecordScope.BACKWARD_FUNCTION),
            span("ProfilerStep#4", 100, 150),
            span("aten::mm", 110, 120),
            span("Optimizer.step#SGD.step", 120, 130, kind=EventKind.ANNOTATION),
        ]
    )


def test_durations_phases_and_what_is_left():
    times = step_times(two_steps())
    assert times.steps.number.tolist() == [3, 4]
    assert times.duration_ns.tolist() == [100_000, 50_000]
    assert times.phase_ns[:, Phase.FORWARD].tolist() == [35_000, 10_000]
    assert times.phase_ns[:, Phase.BACKWARD].tolist() == [19_000, 0]
    assert times.phase_ns[:, Phase.OPTIMIZER].tolist() == [0, 10_000]
    # 10 to 60: forward and backward overlap between 41 and 45
    assert times.busy_ns.tolist() == [50_000, 20_000]
    assert times.events.tolist() == [4, 3]


def test_a_garbage_collection_is_not_the_work_it_interrupts():
    times = step_times(
        build_trace(
            [
                span("ProfilerStep#0", 0, 100),
                span("aten::mm", 10, 50),
                span("gc: generation 2", 20, 45, kind=EventKind.GC_PAUSE),
            ]
        )
    )
    assert times.phase_ns[0, Phase.FORWARD] == 15_000
    assert times.phase_ns[0, Phase.GARBAGE_COLLECTION] == 25_000
    assert times.busy_ns[0] == 40_000
