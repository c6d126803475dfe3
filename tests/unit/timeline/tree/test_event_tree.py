"""Structure arrays: children, and where events that never ended end."""

from __future__ import annotations

from opscope.timeline.tree.event_tree import event_tree
from opscope.timeline.tree.line_nesting import own_times
from support.build_trace import build_trace, span


def test_what_never_ended_closes_with_its_parent():
    # GIVEN annotations without an exit; the recording went on until 900
    trace = build_trace([
        span("outer", 0, 100),
        span("no exit", 10, None, parent=0),
        span("no exit either", 20, None, parent=1),
        span("inside", 30, 40, parent=2),
        span("at top level", 500, None, parent=-1),
        span("last", 600, 900, parent=-1),
    ])  # fmt: skip

    # THEN they end with what they ran in, and at top level with the recording
    assert (event_tree(trace).duration_ns // 1000).tolist() == [100, 90, 80, 10, 400, 300]


def us(values):
    return (values / 1000).tolist()


def test_an_asynchronous_event_has_no_self_time_and_takes_none():
    trace = build_trace([
        span("a", 0, 100),
        span("async", 10, 400, parent=0, is_async=True),
        span("inside it", 20, 30, parent=1),
        span("c", 50, 60, parent=0),
    ])  # fmt: skip

    own = own_times(trace)

    assert us(own) == [80, 0, 10, 10]
