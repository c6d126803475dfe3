"""Parents from times: against the definition on random spans, and by example where they overlap."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from opscope.columns.nesting import enclosing, parents_by_nesting, rounding_of

# Few distinct times and threads, so that ties, empty spans and overlaps are frequent.
spans = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 8)), max_size=30)


def arrays(rows):
    """Thread, start and end in start order, outer spans first."""
    rows = sorted(rows, key=lambda row: (row[1], -row[2]))
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 1] + table[:, 2]


def contains(outer, inner, start, end):
    inside = start[outer] <= start[inner] and end[inner] <= end[outer]
    return inside and start[inner] < end[outer]


@settings(max_examples=40)
@given(spans)
def test_the_parent_is_the_innermost_earlier_span_around(rows):
    thread, start, end = arrays(rows)
    parent, _ = parents_by_nesting(thread, start, end)
    for row in range(len(rows)):
        around = [
            other for other in range(row)
            if thread[other] == thread[row] and contains(other, row, start, end)
        ]  # fmt: skip
        assert parent[row] == (max(around) if around else -1)


def parents(*times, rounding_ns=0):
    table = np.array(times, dtype=np.int64)
    thread = np.zeros(len(table), dtype=np.int64)
    found, overlap = parents_by_nesting(thread, table[:, 0], table[:, 1], rounding_ns)
    return found.tolist(), overlap.tolist()


def test_what_ends_late_by_rounding_is_inside_and_what_ends_later_overlaps():
    assert parents((0, 100), (10, 102)) == ([-1, -1], [0, 90])
    assert parents((0, 100), (10, 102), rounding_ns=2) == ([-1, 0], [0, 0])
    assert parents((0, 100), (10, 103), rounding_ns=2) == ([-1, -1], [0, 90])
    # The next call begins where rounding lets the one before it end: it is mostly outside.
    assert parents((0, 100), (99, 101), rounding_ns=2) == ([-1, -1], [0, 1])
    # Each in a chain may be late once.
    assert parents((0, 100), (10, 102), (20, 104), rounding_ns=2) == ([-1, 0, 1], [0, 0, 0])


def test_rounding_is_that_of_the_units_of_a_file():
    def rounding(start, took):
        return rounding_of(np.array(start, dtype=np.int64), np.array(took, dtype=np.int64))

    assert rounding([1000, 52_000], [3000, 0]) == 2000
    assert rounding([1000, 52_000], [300, 0]) == 2000
    assert rounding([1100, 52_000], [300, 100]) == 200
    assert rounding([1001], [7]) == 2
    assert rounding([], []) == 2000


@settings(max_examples=40)
@given(spans, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), max_size=20))
def test_enclosing_is_the_last_started_span_or_one_around_it(rows, points):
    thread, start, end = arrays(rows)
    parent, _ = parents_by_nesting(thread, start, end)
    where = np.array(points, dtype=np.int64).reshape(-1, 2)
    found = enclosing((thread, start, end, parent), where[:, 0], where[:, 1])
    for (point_thread, time), event in zip(points, found, strict=True):
        started = np.flatnonzero((thread == point_thread) & (start <= time))
        expected = int(started[-1]) if len(started) else -1
        while expected >= 0 and end[expected] < time:
            expected = int(parent[expected])
        assert event == expected
