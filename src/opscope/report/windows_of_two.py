"""The windows of two long traces on one timeline, which both begin together on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opscope.columns.trace_data import TraceData
from opscope.jobs.merged_trace import moved_by, versions_together
from opscope.report.windows import Found, IsWanted, Merged, Windows


class WindowsOfTwo:
    """Like :class:`Windows`, for an old and a new version; times are those of the new one."""

    def __init__(self, old: Windows, new: Windows, names: Sequence[str]) -> None:
        """``names`` are what the page calls them."""
        self._both, self._names = (old, new), names
        self._later_ns = new.begin_ns - old.begin_ns, 0
        self.begin_ns = new.begin_ns
        self.end_ns = max(
            one.end_ns + later for one, later in zip(self._both, self._later_ns, strict=True)
        )

    def window(self, begin_ns: int, end_ns: int, least_ns: int) -> tuple[TraceData, Merged, int]:
        """Spans of both versions between two moments; see :meth:`Windows.window`."""
        found = [
            one.window(begin_ns - later, end_ns - later, least_ns)
            for one, later in zip(self._both, self._later_ns, strict=True)
        ]
        traces = [
            moved_by(trace, later) for (trace, *_), later in zip(found, self._later_ns, strict=True)
        ]
        starts = np.concatenate([trace.events["start_ns"] for trace in traces])
        merged = np.concatenate([merged for _, merged, _ in found])
        order = np.argsort(starts, kind="stable")  # as of the events of versions_together
        least = max(least for *_, least in found)
        return versions_together(traces, self._names), merged[order], least

    def find(self, predicate: IsWanted, moment_ns: int, backwards: bool = False) -> Found:
        """Spans of both; as :meth:`Windows.find`."""
        found = [
            (one.find(predicate, moment_ns - later, backwards), later)
            for one, later in zip(self._both, self._later_ns, strict=True)
        ]
        nexts = [
            (one.next[0] + later, one.next[1] + later)
            for one, later in found
            if one.next is not None
        ]

        def far(span: tuple[int, int]) -> tuple[bool, int]:
            ahead_ns = (moment_ns - span[0]) if backwards else (span[0] - moment_ns)
            return ahead_ns <= 0, ahead_ns  # what is not ahead comes after all that is

        return Found(
            sum(one.count for one, _ in found),
            sum(one.duration_ns for one, _ in found),
            min(nexts, key=far, default=None),
        )
