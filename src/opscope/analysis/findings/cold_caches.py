"""What the rest of a program takes longer because a fault had the processor's caches in between.

A recording has the rest as it runs after the fault, with its code, weights and activations to be
fetched again. Where the fault is gone altogether, and not done otherwise, the rest finds them.
"""

from __future__ import annotations

import numpy as np

from opscope.analysis.findings.subject import Subject, Values

_AT_FIRST, _FIRST_NS = 0.5, 100_000
"""Of so much of what follows each time. Seven small calls (a layer, a softmax, a few sums) of 4 to
220 microseconds after 0.1 to 1 ms of Python, JSON, text or sorting: 8 to 82 %, in the median 47 %.
"""

_LATER, _MOST_NS = 0.2, 350_000
"""Of the rest that follows, or of the fault where that is less, and at most so long in all.

Of six programs with steps of 0.4 to 7 ms, alone and after each of six others that take 0.1 to 3 ms
(JSON, sorting, text, tensors of 2 and 8 MiB), this was up to 50 % of a step, in the median 13 %;
with Python or a sort in between, and steps of up to 2 ms, 20 %; of steps of 4 to 7 ms 0.2 to 0.6.
"""

_SHORT_NS, _AT_ONCE_NS = 50_000, 10_000
"""A fault shorter than this has less than the caches hold; one that follows so soon is the same."""


def refilling_ns(subject: Subject, events: Values, saved_ns: int) -> int:
    """What is fetched again after each time that some of ``events`` ran, for being pushed out.

    Args:
        subject: what they are of.
        events: those of a finding whose fix takes away what they do, rows.
        saved_ns: how much of their time that is.
    """
    rows = events[subject.is_main[events]]
    if not len(rows) or len(subject.trace.table("gpu")):
        return 0
    rows = rows[np.argsort(subject.start_ns[rows], kind="stable")]
    start, end = subject.start_ns[rows], np.maximum.accumulate(subject.end_ns[rows])
    longer = subject.stretch_of_constants
    apart = np.flatnonzero(start[1:] - end[:-1] > _AT_ONCE_NS * longer)
    begin, until = start[np.append(0, apart + 1)], end[np.append(apart, len(rows) - 1)]
    took = until - begin
    going = took * min(saved_ns / max(int(took.sum()), 1), 1.0)
    rest = np.append(begin[1:], subject.end_ns[subject.is_main].max()) - until
    first = np.minimum(rest, _FIRST_NS * longer)
    again = _AT_FIRST * first + _LATER * (rest - first)
    again = np.minimum(again, np.minimum(_LATER * going, _MOST_NS * longer))
    return int(again[going > _SHORT_NS * longer].sum())
