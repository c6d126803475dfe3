"""What of the time of events goes when a finding's fix saves so much.

A finding says how much less its events take, and often with them the Python around them: of what
they take as much as there is, and the rest from the time of what called them: first what that
spends itself, then whatever it calls.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope.tree.ancestry import Index, nearest_ancestor, subtree_sums

Values = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]


def taken(
    own_ns: Values,
    around: Index,
    events: Values,
    saved_ns: float,
    by_themselves: npt.NDArray[np.bool_] | None = None,
) -> Shares:
    """Which share of each event's own time goes; the last is of the time in no event.

    Args:
        own_ns: time of each event in which nothing that it called ran, and of none. Shape
            (events + 1,).
        around: the event around each, -1 for none. Shape (events,).
        events: of the finding, rows; all they call is part of them.
        saved_ns: how much is saved.
        by_themselves: events that are part of the finding without what they call; None for none.
            Shape (events,).
    """
    whole = events if by_themselves is None else events[~by_themselves[events]]
    inside = with_calls(around, whole)
    inside[events] = True
    shares = np.zeros(len(own_ns))
    left_ns = float(saved_ns) - _take(shares, own_ns, inside, saved_ns)
    if left_ns < 1:
        return shares
    there = subtree_sums(around, np.rint(own_ns[:-1] * (1 - shares[:-1])).astype(np.int64))
    parents, level, skipped = np.append(around, -1), np.unique(events), False
    while left_ns >= 1 and (level >= 0).any():
        below, level = level, np.unique(parents[level[level >= 0]])
        # All of this goes, whatever comes first: looked at with what is around it.
        if level[0] >= 0 and there[level].sum() < left_ns:
            skipped = True
            continue
        if skipped:
            left_ns -= _take(shares, own_ns, with_calls(around, below), left_ns)
            skipped = False
        direct = np.zeros(len(own_ns), dtype=np.bool_)
        direct[level] = True
        left_ns -= _take(shares, own_ns, direct & ~inside, left_ns)
        if left_ns >= 1:
            left_ns -= _take(shares, own_ns, with_calls(around, level), left_ns)
    return shares


def with_calls(around: Index, events: Values) -> npt.NDArray[np.bool_]:
    """Which are events or what these call, the last for no event; of -1 that is everything.

    Shape (events + 1,).
    """
    chosen = np.zeros(len(around) + 1, dtype=np.bool_)
    chosen[events] = True
    if chosen[-1]:
        return np.ones_like(chosen)
    chosen[:-1] |= nearest_ancestor(around, chosen[:-1]) >= 0
    return chosen


def _take(shares: Shares, own_ns: Values, chosen: npt.NDArray[np.bool_], wanted_ns: float) -> float:
    """Take evenly of what is left of some; how much that was."""
    rows = np.flatnonzero(chosen)
    there = own_ns[rows] * (1 - shares[rows])
    total = float(there.sum())
    if total <= 0:
        return 0.0
    share = min(wanted_ns / total, 1.0)
    shares[rows] += (1 - shares[rows]) * share
    return share * total
