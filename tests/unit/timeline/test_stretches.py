"""Unions of intervals."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from opscope.timeline.stretches import union_of

intervals = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)))


@settings(max_examples=40)
@given(intervals, intervals)
def test_a_union_covers_the_instants_inside_any_interval(given_intervals, parts):
    rows, part = (np.array(one, dtype=np.int64).reshape(-1, 2) for one in (given_intervals, parts))
    inside: set[int] = set()
    for first, length in rows.tolist():
        inside.update(range(first, first + length))

    union = union_of(rows[:, 0], rows.sum(axis=1))

    assert union.total_ns == len(inside)
    assert union.covered(part[:, 0], part.sum(axis=1)).tolist() == [
        len(inside.intersection(range(first, first + length))) for first, length in part.tolist()
    ]
