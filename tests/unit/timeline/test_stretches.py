"""Sets of stretches: the same as when every nanosecond is counted."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.timeline.stretches import Stretches, union_of

NOTHING = np.zeros(0, dtype=np.int64)


def counted(starts, ends, until=200):
    line = np.zeros(until, dtype=bool)
    for start, end in zip(starts, ends, strict=True):
        line[start:end] = True
    return line


@pytest.mark.parametrize("seed", range(20))
def test_unions_overlaps_and_gaps_are_those_of_single_nanoseconds(seed):
    random = np.random.default_rng(seed)
    sets, lines = [], []
    for count in random.integers(0, 30, 2):
        starts = random.integers(0, 180, count)
        ends = starts + random.integers(0, 15, count)
        sets.append(union_of(starts, ends))
        lines.append(counted(starts, ends))
    for spans, line in zip(sets, lines, strict=True):
        assert (counted(spans.start_ns, spans.end_ns) == line).all()
        assert spans.total_ns == line.sum()
        assert (spans.start_ns[1:] > spans.end_ns[:-1]).all()
        gaps = spans.gaps(10, 190)
        assert (counted(gaps.start_ns, gaps.end_ns)[10:190] == ~line[10:190]).all()
        begin, end = np.array([0, 5, 60, 150]), np.array([200, 5, 90, 199])
        wanted = [line[b:e].sum() for b, e in zip(begin, end, strict=True)]
        assert spans.covered(begin, end).tolist() == wanted
    assert sets[0].overlap_ns(sets[1]) == (lines[0] & lines[1]).sum()


def test_nothing_leaves_all_time_free():
    nothing = union_of(NOTHING, NOTHING)
    assert (len(nothing), nothing.total_ns) == (0, 0)
    gaps = nothing.gaps(3, 8)
    assert (gaps.start_ns.tolist(), gaps.end_ns.tolist()) == ([3], [8])
    assert nothing.overlap_ns(Stretches(np.array([1]), np.array([5]))) == 0
