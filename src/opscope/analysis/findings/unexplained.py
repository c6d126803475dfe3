"""What the findings leave unexplained: how much of the time, and where it passes."""

from __future__ import annotations

import numpy as np

from opscope.analysis.findings.finding import Finding
from opscope.analysis.findings.gil import GIL
from opscope.analysis.findings.subject import Subject, Values
from opscope.analysis.findings.taken import taken
from opscope.analysis.findings.time_split import Spent, TimeSplit
from opscope.analysis.findings.unexplained_time import Unexplained
from opscope.analysis.period import wall_bounds
from opscope.tree.ancestry import nearest_ancestor

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
    Spent.GIL: "waiting for the GIL",
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
    if not any(finding.id == GIL.id for finding in found):
        by_kind[Spent.GIL] += max(subject.wall_ns - (last - first), 0)
    order = [kind for kind in np.argsort(-by_kind).tolist() if by_kind[kind] > 0]
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
    """Own time of each event that is left when findings' fixes have taken theirs.

    What is an occurrence of a finding, or runs in one that is not a running function, is explained
    in full; of what calls it as much as the finding saves beyond that.
    """
    chosen = np.zeros(len(subject.parent), dtype=np.bool_)
    functions = subject.sites.defined_here
    own = np.append(split.self_ns, 0)
    left = np.ones(len(own))
    for finding in found:
        # What waits for the GIL took is in no event at these times.
        if finding.weight >= _SAYS_ENOUGH and finding.id != GIL.id:
            events: Values = finding.events
            chosen[events] = True
            for fix in finding.fixes:
                chosen[fix.events] = True
            derived_ns = finding.derived_ns or 0
            left -= taken(own, subject.parent, events, derived_ns, functions)
    inner = chosen & ~functions
    explained = chosen | (nearest_ancestor(subject.parent, inner) >= 0)
    amounts = np.rint(split.self_ns * np.maximum(left[:-1], 0)).astype(np.int64)
    return np.where(explained, 0, amounts)
