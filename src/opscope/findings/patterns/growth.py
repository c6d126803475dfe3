"""Tensors that grow or are kept from round to round: concatenations, and memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opscope.analysis.sites import Place
from opscope.base.quantity_text import bytes_text, share_text
from opscope.columns.schema import AllocationAction
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.status import Status
from opscope.findings.subject import Subject, Values
from opscope.findings.values import computed_values
from opscope.timeline.tree.event_tree import nearest_ancestor

CONCATENATIONS = ("aten::cat", "aten::concat", "aten::concatenate", "aten::hstack", "aten::vstack")
_WORTH_SAYING, _FEWEST = 0.02, 8
_LEAST_BYTES, _LEAST_SHARE = 1 << 20, 0.2
"""Of memory that grows: in all, and of what is in use at its peak."""

_STEADY, _MOST_OF_IT = 0.6, 0.5
"""Of the rounds that must add to what is kept."""


def _find_growing(subject: Subject) -> Evidence | None:
    """Concatenations at a line whose first tensor is what the last one there made."""
    joins = np.flatnonzero(subject.named(*CONCATENATIONS) & (subject.operator_parent < 0))
    if len(joins) < _FEWEST:
        return None
    # Of a list of tensors the row is that of the first, which is what has been gathered so far.
    first = subject.tensor_argument(0)[joins]
    known = first >= 0
    joins, first = joins[known], first[known]
    allocation = subject.trace.table("tensors")["allocation_id"][first]
    made_by = computed_values(subject).makers_of(allocation)
    is_join = np.zeros(len(subject.parent) + 1, dtype=np.bool_)
    is_join[joins] = True
    growing = joins[is_join[made_by] & (made_by >= 0)]
    if len(growing) < _FEWEST:
        return None
    took = subject.duration_ns[growing]
    total = int(took.sum())
    if total < _WORTH_SAYING * subject.wall_ns:
        return None
    return Evidence(
        events=growing,
        event_time_ns=took,
        time_ns=total,
        explanation=(
            f"{len(growing):,} concatenations each copy all that the one before has gathered: the "
            f"cost grows with the square of their number, {share_text(total / subject.wall_ns)} of "
            "the time by now."
        ),
        saved_ns=total - total // len(growing),
        saved_by="the concatenations but one",
    )


def _find_kept(subject: Subject) -> Evidence | None:
    """Memory that every round adds to and nothing frees until the end of the recording."""
    table = subject.trace.table("allocations")
    taken = np.flatnonzero(
        (table["action"] == AllocationAction.ALLOCATE) & (table["allocation_id"] >= 0)
    )
    freed = table["allocation_id"][table["action"] == AllocationAction.FREE]
    kept = taken[~np.isin(table["allocation_id"][taken], freed) & (table["event"][taken] >= 0)]
    if not len(kept) or not subject.sites.known:
        return None
    size, event = table["size_bytes"][kept], table["event"][kept].astype(np.int64)
    rounds = _rounds(subject)
    if rounds is None:
        return None
    row = np.searchsorted(rounds, event, side="right") - 1
    inside = (row >= 0) & (row < len(rounds) - 1)
    by_round = np.bincount(row[inside], weights=size[inside], minlength=len(rounds) - 1)
    typical = int(np.median(by_round))
    total = int(by_round.sum())
    peak = _peak(subject)
    if typical <= 0 or (by_round >= typical / 4).mean() < _STEADY:
        return None
    if total < _LEAST_BYTES or total < _LEAST_SHARE * peak:
        return None
    events, inverse = np.unique(subject.outermost_operator[event[inside]], return_inverse=True)
    known = events >= 0
    weight = np.bincount(inverse.reshape(-1), weights=size[inside]).astype(np.int64)
    place = _keeper(subject, rounds, events[known], weight[known])
    return Evidence(
        events=events[known],
        event_time_ns=np.maximum(subject.duration_ns[events[known]], 0),
        time_ns=int(subject.duration_ns[events[known]].sum()),
        explanation=(
            f"{len(rounds) - 1:,} rounds each leave about {bytes_text(typical)} behind that is not "
            f"freed: {bytes_text(total)} by the end, of {bytes_text(peak)} at the peak. A tensor "
            "that needs gradients keeps all that its graph saved for the backward pass; "
            f"most of it was allocated by {_largest(subject, events[known], weight[known])}."
        ),
        saved_ns=None,
        saved_by="memory, and no time that this recording could tell",
        saved_bytes=total - typical,
        saved_bytes_share=(total - typical) / peak,
        places=place,
    )


def _largest(subject: Subject, events: Values, weight: Values) -> str:
    names, group = np.unique(subject.events["name"][events], return_inverse=True)
    total = np.bincount(group.reshape(-1), weights=weight)
    return ", ".join(subject.trace.names[int(names[i])] for i in np.argsort(-total)[:3])


def _peak(subject: Subject) -> int:
    """Most bytes in use of what was allocated in the recording."""
    table = subject.trace.table("allocations")
    return int(max(np.cumsum(table["size_bytes"]).max(initial=0), 1))


def _rounds(subject: Subject) -> Values | None:
    """Starts of rounds, rows: the line of the program that keeps a steady beat and takes longest.

    What a function of the program calls again and again, at one line, over most of the recording.
    """
    lines = subject.line_calls
    if not len(lines.events):
        return None
    count = np.bincount(lines.group)
    took = np.bincount(lines.group, weights=subject.duration_ns[lines.events])
    calls = _per_function(lines.group, lines.function)
    took[(count < _FEWEST) | (count // np.maximum(calls, 1) < _FEWEST)] = 0
    took[_spread_ns(subject, lines.group) < _MOST_OF_IT * subject.wall_ns] = 0
    if not took.any():
        return None
    beat = lines.events[lines.group == int(np.argmax(took))]
    names = subject.events["name"][beat]
    longest = beat[np.argmax(subject.duration_ns[beat])]
    beat = beat[names == subject.events["name"][longest]]
    return np.append(beat, len(subject.parent)).astype(np.int64)


def _spread_ns(subject: Subject, group: Values) -> Values:
    """Between the first and the last call of each line: making a network is a loop as well."""
    start = subject.start_ns[subject.line_calls.events]
    first = np.full(group.max() + 1, np.iinfo(np.int64).max)
    last = np.zeros_like(first)
    np.minimum.at(first, group, start)
    np.maximum.at(last, group, start)
    return np.asarray(last - first)


def _per_function(group: Values, function: Values) -> Values:
    distinct = np.unique(np.stack([group, function]), axis=1)[0]
    return np.bincount(distinct, minlength=int(group.max()) + 1).astype(np.int64)


def _keeper(
    subject: Subject, rounds: Values, events: Values, kept_bytes: Values
) -> tuple[Place, ...]:
    """The line that keeps it: an operator on what an earlier round made, or a list's append."""
    carried = _carried(subject, rounds)
    appends = np.flatnonzero(subject.named_like("<built-in method append", "method extend"))
    appends = appends[subject.sites.called_here[appends]]
    beats = len(rounds) - 1
    for rows in (carried, appends):
        places = subject.sites.places(rows, subject.duration_ns[rows])
        regular = tuple(one for one in places if one.file and one.occurrences >= beats * _STEADY)
        if regular:
            return regular
    by_time = subject.sites.places(events, subject.duration_ns[events])
    took = {str(one): one.time_ns for one in by_time}
    by_bytes = subject.sites.places(events, kept_bytes)
    return tuple(replace(one, time_ns=took.get(str(one), 0)) for one in by_bytes)


def _carried(subject: Subject, rounds: Values) -> Values:
    """Operators called from the program on a tensor with gradients that an earlier round made."""
    tensors = subject.trace.table("tensors")
    allocation = tensors["allocation_id"]
    rows = np.flatnonzero(tensors["requires_grad"] & (allocation >= 0))
    event = tensors["event"][rows].astype(np.int64)
    made = computed_values(subject).makers_of(allocation[rows])
    made_in = np.searchsorted(rounds, made, side="right")  # 0: before the rounds, as parameters
    earlier = (made_in > 0) & (made_in < np.searchsorted(rounds, event, side="right"))
    training = subject.is_training
    inside = training | (nearest_ancestor(subject.parent, training) >= 0)
    inside |= subject.named("aten::ones_like")  # what backward() begins with keeps nothing
    wanted = earlier & (made >= 0) & (subject.operator_parent[event] < 0) & ~inside[event]
    return np.unique(event[wanted])


GROWING_CONCATENATION = Pattern(
    id="growing-concatenation",
    title="A tensor is put together piece by piece, and copied with each",
    advice="Gather the pieces in a list and call torch.cat once, or write into one tensor.",
    find=_find_growing,
    needs=(Needs.SHAPES, Needs.IDENTITY, Needs.MEMORY),
)

MEMORY_THAT_GROWS = Pattern(
    id="memory-that-grows",
    status=Status.MEMORY,
    title="Every round leaves memory behind",
    advice=(
        "Keep numbers instead of tensors with their graph: losses.append(loss.detach()), total += "
        "loss.detach(), state = state.detach() between steps; empty lists that only grow."
    ),
    find=_find_kept,
    needs=(Needs.SHAPES, Needs.IDENTITY, Needs.MEMORY, Needs.STACKS),
)
