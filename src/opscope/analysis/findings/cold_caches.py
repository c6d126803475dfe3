"""What the rest of a program takes longer because a fault had the processor's caches in between.

A recording has the rest as it runs after the fault, with its code, weights and activations to be
fetched again. Where the fault is gone altogether, and not done otherwise, the rest finds them.
"""

from __future__ import annotations

import numpy as np

from opscope.analysis.findings.subject import Subject, Values

_AT_FIRST, _FIRST_NS = 0.25, 100_000
"""Of so much of what follows each time."""

_LATER, _MOST_NS = 0.1, 175_000
"""Of the rest that follows, or of the fault where that is less, and at most so long in all.

Six programs with steps of 0.26 to 7 ms, alone and after each of seven others (JSON, sorting, text,
counting words, tensors of 2 and 8 MiB), on a machine at rest: 1 to 43 % of a step was for coming
after the other, in the median 11 %, and of the step of 7 ms 0.1 to 0.7 ms. Seven small calls of 3
to 49 microseconds: up to 83 %, in the median 57 %. These shares were chosen over a third of the
programs of ``benchmarks/advice``, recorded at rest, and held against the others.
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
