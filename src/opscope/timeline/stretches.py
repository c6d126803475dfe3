"""Sets of disjoint, ordered time intervals: union, overlap, gaps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opscope.timeline.arrays import Flags, Values


@dataclass(frozen=True, eq=False)
class Stretches:
    """Disjoint intervals in order. Arrays have shape (stretches,)."""

    start_ns: Values  # begins
    end_ns: Values  # ends, after their begin

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def total_ns(self) -> int:
        """Total length."""
        return int((self.end_ns - self.start_ns).sum())

    @property
    def edges_ns(self) -> Values:
        """Begin and end of each, in order. Shape (2 * stretches,)."""
        return np.stack([self.start_ns, self.end_ns], axis=1).ravel()

    def contain(self, moments: Values) -> Flags:
        """Whether each moment is in an interval; shape of ``moments``."""
        inside: Flags = np.searchsorted(self.edges_ns, moments, side="right") % 2 == 1
        return inside

    def covered_until(self, moments: Values) -> Values:
        """Total length covered before each moment; shape of ``moments``."""
        if not len(self):
            return np.zeros(len(moments), dtype=np.int64)
        before = np.concatenate([[0], np.cumsum(self.end_ns - self.start_ns)])
        row = np.searchsorted(self.start_ns, moments, side="right") - 1
        inside = np.minimum(moments, self.end_ns[row]) - self.start_ns[row]
        covered: Values = np.where(row >= 0, before[row] + inside, 0)
        return covered

    def covered(self, start_ns: Values, end_ns: Values) -> Values:
        """Total length covered of each given interval; shape of ``start_ns``."""
        return self.covered_until(end_ns) - self.covered_until(start_ns)

    def overlap_ns(self, others: Stretches) -> int:
        """Length of the overlap with other intervals."""
        return int(self.covered(others.start_ns, others.end_ns).sum())

    def gaps(self, start_ns: int, end_ns: int) -> Stretches:
        """Uncovered intervals between two moments."""
        starts = np.concatenate([[start_ns], self.end_ns]).clip(start_ns, end_ns)
        ends = np.concatenate([self.start_ns, [end_ns]]).clip(start_ns, end_ns)
        free = ends > starts
        return Stretches(starts[free], ends[free])


def union_of(start_ns: Values, end_ns: Values, apart_ns: int = 0) -> Stretches:
    """Union of intervals; those at most ``apart_ns`` apart are merged."""
    order = np.argsort(start_ns, kind="stable")
    start, end = start_ns[order], end_ns[order]
    if not len(start):
        return Stretches(start, end)
    reached = np.maximum.accumulate(end)
    first = np.concatenate([[True], start[1:] > reached[:-1] + apart_ns])
    last = np.append(np.flatnonzero(first)[1:] - 1, len(start) - 1)
    spans = Stretches(start[first], reached[last])
    long = spans.end_ns > spans.start_ns
    return Stretches(spans.start_ns[long], spans.end_ns[long])
