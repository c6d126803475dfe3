"""Which span is innermost, from one instant to the next."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from opscope.analysis.account.pieces import pieces_of
from opscope.timeline.steps import program_steps
from opscope.timeline.tree.line_nesting import own_times
from support.build_trace import ORIGIN_NS, build_trace


def pieces(trace, end_us, cuts_us=()):
    cuts = ORIGIN_NS + np.array(cuts_us, dtype=np.int64) * 1000
    return pieces_of(trace, program_steps(trace)[0], (ORIGIN_NS, ORIGIN_NS + end_us * 1000), cuts)


def picture(found, thread=0):
    own = found.thread == thread
    start = (found.start_ns[own] - ORIGIN_NS) // 1000
    columns = (start, found.length_ns[own] // 1000, found.event[own])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_time_belongs_to_the_innermost_span_and_gaps_to_none():
    assert len(pieces(build_trace(""), 0)) in (0, 1)
    trace = build_trace("outer 10..50\n  first 20..30\n  second 30..45\nlast 60..70")
    assert picture(pieces(trace, 80)) == [
        (0, 10, -1), (10, 10, 0), (20, 10, 1), (30, 15, 2), (45, 5, 0), (50, 10, -1), (60, 10, 3),
        (70, 10, -1),
    ]  # fmt: skip
    # Spans that begin or end together nest as they do, and those of no duration have no piece.
    trace = build_trace("a 0..40\n b 0..40\n  c 0..10\n  d 20..40\ne 40..50")
    assert picture(pieces(trace, 50)) == [(0, 10, 2), (10, 10, 1), (20, 20, 3), (40, 10, 4)]
    trace = build_trace("a 0..40\n point 20..20\n b 20..30")
    assert picture(pieces(trace, 40)) == [(0, 20, 0), (20, 10, 2), (30, 10, 0)]


def test_cuts_end_pieces_of_every_thread():
    found = pieces(build_trace("a 0..40 @one\nb 0..40 @two"), 40, [10, 20])
    assert picture(found, 0) == [(0, 10, 0), (10, 10, 0), (20, 20, 0)]
    assert picture(found, 1) == [(0, 10, 1), (10, 10, 1), (20, 20, 1)]


@st.composite
def nested(draw, begin=0, end=1000, depth=0):
    """Spans of one thread that nest, in order of start."""
    count = draw(st.integers(0, 4 if depth < 4 else 0))
    edges = sorted(draw(st.lists(st.integers(begin, end), min_size=2 * count, max_size=2 * count)))
    spans = []
    for low, high in zip(edges[::2], edges[1::2], strict=True):
        spans.append(("span", low, high))
        spans += draw(nested(low, high, depth + 1))
    return spans


@settings(max_examples=60, deadline=None)
@given(nested())
def test_pieces_cover_the_time_and_agree_with_own_times(spans):
    trace = build_trace([*spans] or "")
    found = pieces(trace, 1000)
    if not len(trace.events):
        return
    assert found.length_ns.sum() == 1_000_000
    assert (found.length_ns > 0).all()
    inside = found.event >= 0
    by_event = np.bincount(
        found.event[inside], weights=found.length_ns[inside], minlength=len(trace.events)
    )
    assert by_event.astype(np.int64).tolist() == own_times(trace).tolist()
