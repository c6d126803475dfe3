"""What the findings leave unexplained: how much of the time, and where it passes."""

from __future__ import annotations

import numpy as np

from opscope.findings.finding import Finding
from opscope.findings.subject import Subject, Values
from opscope.findings.time_split import Spent, TimeSplit
from opscope.findings.unexplained_time import Unexplained
from opscope.timeline.period import wall_bounds
from opscope.timeline.tree.event_tree import nearest_ancestor

_WORDS = {
    Spent.TORCH: "torch's operators",
    Spent.TORCH_PYTHON: "torch's Python",
    Spent.OWN: "the program's Python",
    Spent.OUTSIDE: "other libraries",
    Spent.PAUSE: "garbage collections",
    Spent.UNKNOWN: "calls that were not recorded",
    Spent.IMPORT: "imports",
    Spent.WAITING: "waiting for what comes next",
    Spent.DEVICE: "waiting for a device",
}
_MOST_PLACES = 3
_SAYS_ENOUGH = 0.02
"""Findings that save less do not count as an explanation."""


def unexplained(subject: Subject, found: list[Finding]) -> Unexplained:
    """What is left once the time of the findings is taken away."""
    if not len(subject.events):
        return Unexplained(0, 0.0, (), ())
    split = subject.once(TimeSplit)
    spent = np.where(subject.is_main, _left_ns(subject, split, found), 0)
    counted = int(split.self_ns[subject.is_main].sum())
    by_kind = np.bincount(split.whose, weights=spent, minlength=len(Spent)).astype(np.int64)
    first, last = wall_bounds(subject.trace)
    by_kind[Spent.UNKNOWN] += max(last - first - counted, 0)
    order = [kind for kind in np.argsort(-by_kind).tolist() if by_kind[kind] > 0]
    # What the first finding saves is explained, also where its events are not all that goes.
    most = subject.wall_ns - max((finding.saved_ns or 0 for finding in found), default=0)
    if by_kind.sum() > most:
        by_kind = (by_kind * (most / by_kind.sum())).astype(np.int64)
    total = int(by_kind.sum())
    rows = np.flatnonzero(spent > 0)
    places = (
        subject.sites.places(rows, spent[rows], with_modules=False) if subject.sites.known else ()
    )
    return Unexplained(
        time_ns=total,
        share=min(total / subject.wall_ns, 1.0),
        parts=tuple((_WORDS[Spent(kind)], int(by_kind[kind])) for kind in order),
        places=tuple(place for place in places if place.file)[:_MOST_PLACES],
    )


def _left_ns(subject: Subject, split: TimeSplit, found: list[Finding]) -> Values:
    """Own time of each event that no finding explains.

    Occurrences of a finding and what they call are explained in full; of a function of the program
    that is one, only its own time, and as much of that as the finding saves.
    """
    functions = subject.sites.defined_here
    chosen = np.zeros(len(subject.parent), dtype=np.bool_)
    left = np.ones(len(subject.parent))
    for finding in found:
        if finding.weight >= _SAYS_ENOUGH:
            chosen[finding.events] = True
            running = finding.events[functions[finding.events]]
            saved = (finding.saved_ns or 0) / max(int(split.self_ns[running].sum()), 1)
            left[running] = np.minimum(left[running], max(1 - saved, 0.0))
    inner = chosen & ~functions
    explained = inner | (nearest_ancestor(subject.parent, inner) >= 0)
    return np.where(explained, 0, np.rint(split.self_ns * left)).astype(np.int64)
