"""What goes with operators that a fix takes away: the Python that calls them, freeing memory."""

from __future__ import annotations

import numpy as np

from opscope.analysis.findings.subject import Flags, Subject, Values
from opscope.analysis.grouped_medians import medians
from opscope.trace.row_groups import group_rows
from opscope.trace.schema import AllocationAction
from opscope.tree.ancestry import nearest_ancestor, subtree_sums

_LARGE_BYTES = 1 << 17
"""The C library asks the system for blocks of this size anew, each time."""

_MUCH = 0.4
"""Of the time of a call: where operators take less, it does something else too."""

_NEARLY_ALL = 0.9
"""Of the time of the operators in a call, what has to be of those that go, so that it goes too."""

_ODD = 4
"""Python that takes so many times what it takes at most other times was interrupted."""


def with_surroundings_ns(subject: Subject, operators: Values) -> int:
    """Time of these operators, of calls that do hardly anything else, and of freeing.

    Calls that lines of the program make count with the Python on the way there.
    """
    going = np.zeros(len(subject.parent), dtype=np.int64)
    going[operators] = subject.duration_ns[operators]
    every = np.zeros_like(going)
    every[subject.outermost] = subject.duration_ns[subject.outermost]
    whole = _nearly_all(subject, going, every)
    whole &= _nearly_all(subject, (going > 0).astype(np.int64), (every > 0).astype(np.int64))
    whole &= subtree_sums(subject.parent, going) >= _MUCH * subject.duration_ns
    whole &= subtree_sums(subject.parent, subject.is_training.astype(np.int64)) == 0
    # What operators call from C++ does something of its own besides.
    whole &= subject.operator_parent < 0
    whole[operators] = True
    top = np.flatnonzero(whole & (nearest_ancestor(subject.parent, whole) < 0))
    took = subject.duration_ns + _on_the_way_ns(subject)
    freed_from, freed_until = _freeing(subject, operators)
    begin = np.concatenate([subject.end_ns[top] - took[top], freed_from])
    end = np.concatenate([subject.end_ns[top], freed_until])
    return _covered_ns(begin, end)


def _on_the_way_ns(subject: Subject) -> Values:
    """Of each event that a line of the program calls, the Python before it; 0 for others.

    No more than a few times what it mostly is there: a thread that waited for another one, or for a
    processor, waits somewhere else when this call is gone.
    """
    calls = subject.line_calls
    before = np.maximum(calls.took_ns - subject.duration_ns[calls.events], 0)
    alike = group_rows(calls.group, subject.events["name"][calls.events])
    usual = medians(before, alike.group, len(alike))[alike.group]
    result = np.zeros(len(subject.parent), dtype=np.int64)
    result[calls.events] = np.minimum(before, (_ODD * usual).astype(np.int64))
    return result


def freeing_ns(subject: Subject, operators: Values) -> int:
    """Time in which nothing else ran but that large blocks of these operators were freed."""
    return _covered_ns(*_freeing(subject, operators))


def _nearly_all(subject: Subject, going: Values, every: Values) -> Flags:
    """Which events have hardly anything in them but what goes."""
    inside = subtree_sums(subject.parent, going)
    return np.asarray((inside > 0) & (inside >= _NEARLY_ALL * subtree_sums(subject.parent, every)))


def _covered_ns(begin: Values, end: Values) -> int:
    """How much of the time some stretches cover, each moment once."""
    order = np.argsort(begin, kind="stable")
    reached = np.maximum.accumulate(end[order])
    before = np.append(begin[order][:1], reached[:-1])
    return int(np.maximum(reached - np.maximum(begin[order], before), 0).sum())


def _freeing(subject: Subject, operators: Values) -> tuple[Values, Values]:
    """Stretches between events in which large blocks were freed that these operators made.

    Memory that goes back to the system takes longer than to free a block: it had to be mapped, and
    now every page of it is taken back.
    """
    table = subject.trace.table("allocations")
    around = np.append(subject.outermost_operator, -1)[table["event"]]
    large = np.abs(table["size_bytes"]) >= _LARGE_BYTES
    ours = np.zeros(len(subject.parent) + 1, dtype=np.bool_)
    ours[operators] = True
    made = large & (table["action"] == AllocationAction.ALLOCATE) & ours[around]
    freed = large & (table["action"] == AllocationAction.FREE) & (around < 0)
    freed &= np.isin(table["allocation_id"], table["allocation_id"][made])
    main = np.flatnonzero(subject.is_main)
    edges = np.sort(np.concatenate([subject.start_ns[main], subject.end_ns[main]]))
    place = np.unique(np.searchsorted(edges, table["time_ns"][freed], side="right"))
    place = place[(place > 0) & (place < len(edges))]
    return edges[place - 1], edges[place]
