"""Structure arrays: children, and where events that never ended end."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opscope.timeline.tree.event_tree import event_tree, group_by_parent, self_times
from support.build_trace import build_trace, span

TIMELINE = """
    a          0..100
      b        1..50
        c      2..10
        d     11..20
      e       60..90
    f        200..300   @worker
      g      210..220   @worker
"""


def test_children_are_in_order_of_start():
    tree = event_tree(build_trace(TIMELINE))

    assert tree.roots.tolist() == [0, 5]
    assert [tree.children_of(row).tolist() for row in range(7)] == [
        [1, 4],
        [2, 3],
        [],
        [],
        [],
        [6],
        [],
    ]


def test_the_tree_of_a_trace_is_made_once_and_goes_with_it():
    trace = build_trace(TIMELINE)

    assert event_tree(trace) is event_tree(trace)
    assert event_tree(build_trace(TIMELINE)) is not event_tree(trace)


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


def test_group_by_parent_of_nothing():
    offsets, rows = group_by_parent(np.array([], dtype=np.int32))

    assert offsets.tolist() == [0] and rows.tolist() == []


def us(values):
    return (values / 1000).tolist()


def test_direct_children_are_taken_off_and_grandchildren_are_not():
    trace = build_trace("""
        a          0..100
          b        1..50
            c      2..10
          e       60..90
    """)

    assert us(self_times(event_tree(trace))) == [21, 41, 8, 30]


def test_an_asynchronous_event_has_no_self_time_and_takes_none():
    trace = build_trace([
        span("a", 0, 100),
        span("async", 10, 400, parent=0, is_async=True),
        span("inside it", 20, 30, parent=1),
        span("c", 50, 60, parent=0),
    ])  # fmt: skip

    own = self_times(event_tree(trace), trace.events["is_async"])

    assert us(own) == [80, 0, 10, 10]


@st.composite
def timelines(draw):
    """Random proper nestings on one or two threads, as spans in order of start."""
    spans = []

    def fill(thread, start, end, depth):
        while start < end:
            begin = draw(st.integers(start, end))
            stop = draw(st.integers(begin, end))
            if begin == stop:
                return
            spans.append(span("op", begin, stop, thread))
            if depth < 4:
                fill(thread, begin, stop, depth + 1)
            start = stop

    for thread in ("main", "worker")[: draw(st.integers(1, 2))]:
        fill(thread, 0, draw(st.integers(0, 60)), 0)
    return sorted(spans, key=lambda s: (s.start, -s.end))


@given(timelines())
def test_self_times_of_a_thread_add_up_to_the_time_its_top_level_took(spans):
    trace = build_trace(spans)
    tree = event_tree(trace)
    own = self_times(tree)

    for thread in set(trace.events["thread"].tolist()):
        here = trace.events["thread"] == thread
        top_level = here & (tree.parent < 0)
        assert own[here].sum() == trace.events["duration_ns"][top_level].sum()
    assert (own >= 0).all()
    assert (own <= trace.events["duration_ns"]).all()


def test_no_events():
    assert self_times(event_tree(build_trace([]))).tolist() == []


def test_a_chain_of_100_000_levels():
    from opscope.api.trace import Trace
    from opscope.columns.names import Names

    depth = 100_000
    columns = {
        "parent": np.arange(-1, depth - 1),
        "start_ns": np.arange(depth),
        "duration_ns": 2 * (depth - np.arange(depth)),
    }

    own = self_times(event_tree(Trace({"events": columns}, Names.from_strings([]))))

    assert own.tolist() == [2] * depth
