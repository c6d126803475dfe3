"""Memory that the kernel handed out during a few calls: what they took is not what such calls take.

A process gets pages when its heap has to grow, or again after it shrank. Which call that falls
into is chance, and another recording of the program has it elsewhere, or not at all.
"""

from __future__ import annotations

import numpy as np

from opscope.analysis.account.processor import Intervals, sampled_threads
from opscope.analysis.findings.program_time import main_thread
from opscope.analysis.findings.subject import Flags, Subject, Values
from opscope.analysis.grouped_medians import medians
from opscope.trace.row_groups import group_rows

_ODD, _FEW, _FEWEST = 4, 0.1, 10
"""Calls that take so many times the median are odd, where so small a share of so many calls is."""


def odd_pages_ns(subject: Subject, calls: Flags) -> Values:
    """Of each of ``calls`` what handing out pages may have added to it; 0 for other events.

    That is what the few odd ones of a line took beyond the others, and no more than the kernel
    took to hand out pages from the sample of the thread before to the one after.
    """
    result = np.zeros(len(calls), dtype=np.int64)
    rows = np.flatnonzero(calls & subject.is_main)
    intervals = sampled_threads(subject.recorded).get(main_thread(subject.trace))
    if intervals is None or not len(rows):
        return result
    odd, beyond = _odd(subject, rows)
    start = subject.recorded.events["start_ns"]
    end = start + subject.recorded.events["duration_ns"]
    handed_out = _handed_out_ns(intervals, start[odd], end[odd])
    result[odd] = np.minimum(beyond, handed_out)
    return result


def _odd(subject: Subject, rows: Values) -> tuple[Values, Values]:
    """The odd ones of these calls, and what they took beyond most that are like them."""
    frame, line = subject.sites.at
    alike = group_rows(subject.events["name"][rows], frame[rows], line[rows])
    took = subject.duration_ns[rows]
    usual = medians(took, alike.group, len(alike))[alike.group]
    odd = took > _ODD * usual
    count = np.bincount(alike.group, weights=odd, minlength=len(alike))
    few = (count <= _FEW * alike.count) & (alike.count >= _FEWEST)
    odd &= few[alike.group]
    return rows[odd], np.asarray((took - usual)[odd], dtype=np.int64)


def _handed_out_ns(intervals: Intervals, start: Values, end: Values) -> Values:
    """What the kernel took for pages in all intervals that these stretches touch."""
    total = np.concatenate([[0], np.cumsum(intervals.faults_ns)])
    first = np.maximum(np.searchsorted(intervals.start_ns, start, "right") - 1, 0)
    last = np.searchsorted(intervals.start_ns, end, "left")
    return np.asarray(total[np.maximum(last, first)] - total[first], dtype=np.int64)
