"""The windows of two long traces on one timeline with a common begin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opscope.columns.trace_data import TraceData
from opscope.jobs.merged_trace import moved_by, versions_together
from opscope.report.windows import Found, Merged, NamePredicate, Windows


class WindowsOfTwo:
    """:class:`Windows` of an old and a new version, in the time of the new one."""

    def __init__(self, old: Windows, new: Windows, names: Sequence[str]) -> None:
        """``names``: names of the versions on the page."""
        self._pair, self._names = (old, new), names
        self._shifts_ns = new.begin_ns - old.begin_ns, 0
        self.begin_ns = new.begin_ns
        self.end_ns = max(
            one.end_ns + shift for one, shift in zip(self._pair, self._shifts_ns, strict=True)
        )

    def window(self, begin_ns: int, end_ns: int, least_ns: int) -> tuple[TraceData, Merged, int]:
        """Spans of both versions; see :meth:`Windows.window`."""
        parts = [
            one.window(begin_ns - shift, end_ns - shift, least_ns)
            for one, shift in zip(self._pair, self._shifts_ns, strict=True)
        ]
        shifts = self._shifts_ns
        traces = [moved_by(trace, ns) for (trace, *_), ns in zip(parts, shifts, strict=True)]
        starts = np.concatenate([trace.events["start_ns"] for trace in traces])
        merged = np.concatenate([merged for _, merged, _ in parts])
        order = np.argsort(starts, kind="stable")  # the order of events in versions_together()
        least = max(least for *_, least in parts)
        return versions_together(traces, self._names), merged[order], least

    def find(self, predicate: NamePredicate, moment_ns: int, backwards: bool = False) -> Found:
        """Spans of both versions; see :meth:`Windows.find`."""
        results = [
            (one.find(predicate, moment_ns - shift, backwards), shift)
            for one, shift in zip(self._pair, self._shifts_ns, strict=True)
        ]
        nexts = [
            (one.next[0] + shift, one.next[1] + shift)
            for one, shift in results
            if one.next is not None
        ]

        def far(span: tuple[int, int]) -> tuple[bool, int]:
            ahead_ns = (moment_ns - span[0]) if backwards else (span[0] - moment_ns)
            return ahead_ns <= 0, ahead_ns  # spans behind come after those ahead

        return Found(
            sum(one.count for one, _ in results),
            sum(one.duration_ns for one, _ in results),
            min(nexts, key=far, default=None),
        )
