"""What the rest of a program takes longer because a fault had the processor's caches in between.

A recording has the rest as it runs after the fault, with its code, weights and activations to be
fetched again. Where the fault is gone altogether, and not done otherwise, the rest finds them. What
the fault made and left is in the caches when the rest begins, and without it is to be fetched.
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

_READ_BYTES_A_NS = 10
"""About so much a processor reads of what only its larger cache or memory holds."""

_SHORT_NS, _AT_ONCE_NS = 50_000, 10_000
"""A fault shorter than this has less than the caches hold; one that follows so soon is the same."""


def refilling_ns(
    subject: Subject, events: Values, saved_ns: int, between_calls: Values | None = None
) -> int:
    """What is fetched again after each time that some of ``events`` ran, for being pushed out.

    Args:
        subject: what they are of.
        events: those of a finding whose fix takes away what they do, rows.
        saved_ns: how much of their time that is.
        between_calls: functions among them of which it is what they compute between their calls.
    """
    if len(subject.trace.table("gpu")):
        return 0
    own = np.zeros(0, np.int64) if between_calls is None else between_calls
    own = own[subject.is_main[own]]
    whole = np.setdiff1d(events[subject.is_main[events]], own)
    gaps = _gaps_of(subject, own)
    start = np.append(subject.start_ns[whole], gaps[0])
    if not len(start):
        return 0
    order = np.argsort(start, kind="stable")
    start = start[order]
    end = np.maximum.accumulate(np.append(subject.end_ns[whole], gaps[1])[order])
    longer = subject.stretch_of_constants
    apart = np.flatnonzero(start[1:] - end[:-1] > _AT_ONCE_NS * longer)
    begin, until = start[np.append(0, apart + 1)], end[np.append(apart, len(start) - 1)]
    took = until - begin
    going = took * min(saved_ns / max(int(took.sum()), 1), 1.0)
    fills = going > _SHORT_NS * longer
    if not fills.any():
        return 0
    begin, until, going = begin[fills], until[fills], going[fills]
    rest = np.append(begin[1:], subject.end_ns[subject.is_main].max()) - until
    first = np.minimum(rest, _FIRST_NS * longer)
    again = _AT_FIRST * first + _LATER * (rest - first)
    again = np.minimum(again, np.minimum(_LATER * going, _MOST_NS * longer))
    again -= _left_bytes(subject, begin, until) / _READ_BYTES_A_NS * longer
    return int(np.maximum(again, 0).sum())


def _left_bytes(subject: Subject, begin: Values, until: Values) -> Values:
    """How much more memory the program held at the end of each stretch than when it began."""
    time_ns, held = subject.once(_held_bytes)
    at_begin = held[np.searchsorted(time_ns, begin, "left")]
    at_end = held[np.searchsorted(time_ns, until, "right")]
    return np.asarray(np.maximum(at_end - at_begin, 0), dtype=np.int64)


def _held_bytes(subject: Subject) -> tuple[Values, Values]:
    """When memory was taken or given back, and how much more was held before each and at last."""
    table = subject.trace.table("allocations")
    order = np.argsort(table["time_ns"], kind="stable")
    return table["time_ns"][order], np.cumsum(np.append(0, table["size_bytes"][order]))


def _gaps_of(subject: Subject, calls: Values) -> tuple[Values, Values]:
    """Start and end of what calls compute before, between and after what they call themselves."""
    inner = np.flatnonzero(np.isin(subject.parent, calls))
    around = np.append(calls, subject.parent[inner])
    begin = np.append(subject.start_ns[calls], subject.end_ns[inner])
    until = np.append(subject.end_ns[calls], subject.start_ns[inner])
    # What it calls does not overlap, so that the nth begin and the nth end are of one gap.
    return begin[np.lexsort((begin, around))], until[np.lexsort((until, around))]
