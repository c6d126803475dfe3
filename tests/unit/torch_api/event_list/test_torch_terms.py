"""What torch says differently of the same recording."""

from opscope.columns.schema import EventKind
from opscope.torch_api.event_list.torch_terms import in_torch_terms
from support.build_trace import ORIGIN_NS, build_trace, span

CALL = EventKind.PYTHON_CALL


def test_garbage_collections_get_torchs_name_and_nothing_else_changes():
    trace = build_trace(
        [
            span("aten::add", 0, 5),
            span("gc: generation 2", 6, 9, kind=EventKind.GC_PAUSE),
            span("gc: generation 0", 10, 11, kind=EventKind.GC_PAUSE),
        ]
    )
    renamed = in_torch_terms(trace, adjust_steps=False)

    assert [renamed.event_name(row) for row in range(3)] == ["aten::add", "Python GC", "Python GC"]
    assert [trace.event_name(row) for row in range(3)][1] == "gc: generation 2"
    assert renamed.events["start_ns"].tolist() == trace.events["start_ns"].tolist()
    assert renamed.metadata == trace.metadata


def test_steps_begin_with_the_outermost_call_they_end_in():
    # GIVEN a step that begins in one call of step() and ends in the next, two functions deep
    trace = build_trace(
        [
            span("ProfilerStep#0", 0, 50, kind=EventKind.ANNOTATION),
            span("before", 2, 8, kind=CALL, parent=0),
            span("aten::zeros", 5, 6, parent=1),
            span("other", 9, 99, thread="loader", kind=CALL, parent=-1),
            span("train", 10, 60, kind=CALL, parent=-1),
            span("loss", 12, 20, kind=CALL, parent=4),
            span("step_all", 30, 58, kind=CALL, parent=4),
        ]
    )
    # WHEN it is adjusted
    changed = in_torch_terms(trace, adjust_steps=True)

    # THEN it lies within train(), and what ran before that is no longer inside it
    adjusted = changed.events
    names = [changed.event_name(row) for row in range(7)]
    assert names[3:5] == ["train", "ProfilerStep#0"]
    start = (adjusted["start_ns"] - ORIGIN_NS).tolist()
    assert start == [2_000, 5_000, 9_000, 10_000, 10_001, 12_000, 30_000]
    assert adjusted["duration_ns"][4] == 39_999
    assert adjusted["parent"].tolist() == [-1, 0, -1, -1, -1, 3, 3]
