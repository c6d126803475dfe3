"""Times of a program that was stopped."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from opscope.timeline.stopped_time import without_stops
from support.build_trace import build_trace, nanoseconds, span

NAMES = ("start_ns", "duration_ns")
SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40)), min_size=1, max_size=9)


def made(spans, **metadata):
    ordered = sorted(spans, key=lambda one: (one[0], -one[1]))
    spans = [span("f", begin, begin + took) for begin, took in ordered]
    return build_trace(spans).with_metadata(metadata)


@settings(max_examples=50, deadline=None)
@given(SPANS, st.lists(st.tuples(st.integers(-5, 110), st.integers(1, 30)), max_size=5))
def test_a_stop_leaves_nothing_in_times(spans, stops):
    """Times of a trace after stops were put into it, each at a moment of the program's own clock,
    half a microsecond away from everything else."""
    stops = sorted((moment + 0.5, length) for moment, length in stops)

    def on_clock(moment):
        return moment + sum(length for at, length in stops if at < moment)

    late = made([(on_clock(a), on_clock(a + took) - on_clock(a)) for a, took in spans])
    begun, before = [], 0
    for at, length in stops:
        begun.append((nanoseconds(at + before), nanoseconds(at + before + length)))
        before += length
    found, plain = without_stops(late, begun), made(spans)
    for name in NAMES:
        assert found.events[name].tolist() == plain.events[name].tolist()


def test_what_happened_in_a_stop_is_at_its_begin():
    trace = made([(0, 10), (12, 3), (30, 5)], start_ns=nanoseconds(0), end_ns=nanoseconds(40))
    found = without_stops(trace, [(nanoseconds(5), nanoseconds(25))])
    begin = [(start - nanoseconds(0)) / 1000 for start in found.events["start_ns"].tolist()]
    assert begin == [0, 5, 10]
    assert (found.events["duration_ns"] / 1000).tolist() == [5, 0, 5]
    assert found.metadata["end_ns"] == nanoseconds(20)
    assert without_stops(trace, []) is trace
