"""Loops over the parts of a tensor: by lines of the program, or else by operators alone."""

from __future__ import annotations

import numpy as np

from opscope.analysis.findings.line_loops import find_line_loops
from opscope.analysis.findings.pattern import Evidence, Needs, Pattern
from opscope.analysis.findings.subject import Flags, Subject, Values
from opscope.analysis.program_steps import optimizer_steps
from opscope.analysis.quantity_text import time_text
from opscope.analysis.signatures import mix

_FEWEST_ROUNDS = 10
_MOST_PARTS = 4
"""Rows of ``select`` in one round: ``y[i] = v[i]`` has two."""
_MOST_INDICES = 8
"""``select`` in one row, which has one for each index; a longer row collects a batch."""


def _find(subject: Subject) -> Evidence | None:
    if subject.sites.knows_lines:
        return find_line_loops(subject)
    return _find_by_operators(subject)


def _find_by_operators(subject: Subject) -> Evidence | None:
    """``select``, some operators, ``select``, the same operators, ...: a loop over an index."""
    order, group = _siblings(subject)
    starts = _round_starts(subject, order, group)
    if len(starts) < _FEWEST_ROUNDS:
        return None
    what = _rounds(subject, order, group, starts)
    for period in range(1, _MOST_PARTS + 1):
        first, length = _runs(what, period)
        selects = order[starts[::period]]
        of_elements = ~_are_of_steps(subject, selects, first, length)
        if of_elements.any():
            return _evidence(subject, selects, first[of_elements], length[of_elements])
    return None


def _are_of_steps(subject: Subject, selects: Values, first: Values, length: Values) -> Flags:
    """Which loops are those of the program's steps: an optimizer steps in their rounds."""
    steps = np.sort(subject.start_ns[optimizer_steps(subject.trace)])
    start = subject.start_ns[selects]
    inside = np.searchsorted(steps, start[first + length - 1]) - np.searchsorted(
        steps, start[first]
    )
    return np.asarray(2 * inside >= length, dtype=np.bool_)


def _runs(what: np.ndarray[tuple[int], np.dtype[np.uint64]], period: int) -> tuple[Values, Values]:
    """Where rounds of ``period`` parts repeat, and how often: position among every so many."""
    whole = len(what) // period * period
    rounds = what[:whole].reshape(-1, period)
    if not len(rounds):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    new = np.append(True, (rounds[1:] != rounds[:-1]).any(axis=1))
    run_start = np.flatnonzero(new)
    length = np.diff(np.append(run_start, len(rounds)))
    loops = np.flatnonzero(length >= _FEWEST_ROUNDS)
    return run_start[loops], length[loops]


def _siblings(subject: Subject) -> tuple[Values, Values]:
    """Operators in order of start within their thread and operator, and a number for that group."""
    rows = np.flatnonzero(subject.is_operator)
    thread = subject.events["thread"][rows].astype(np.int64)
    group = thread * (len(subject.parent) + 1) + subject.operator_parent[rows] + 1
    order = np.argsort(group, kind="stable")
    return rows[order], group[order]


def _round_starts(subject: Subject, order: Values, group: Values) -> Values:
    """Positions of the first of each row of ``select``: ``x[i, j]`` is two of them."""
    is_select = subject.named("aten::select")[order]
    follows = np.append(False, is_select[:-1] & (group[1:] == group[:-1]))
    begins = np.flatnonzero(~(is_select & follows))  # of rows, and of everything else
    count = np.diff(np.append(begins, len(order)))
    return np.asarray(begins[is_select[begins] & (count <= _MOST_INDICES)], dtype=np.int64)


def _rounds(
    subject: Subject, order: Values, group: Values, selects: Values
) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """One number for the operators from each ``select`` to before the next, and their group.

    The last round of a group ends where a round of the length before it would.
    """
    ends = np.append(selects[1:], len(order))
    group_end = np.searchsorted(group, group[selects], side="right")
    before = np.append(0, np.diff(selects))
    last = ends >= group_end
    ends = np.where(last, np.minimum(group_end, selects + np.maximum(before, 1)), ends)
    place = np.arange(len(order)) - np.repeat(
        np.append(0, selects), np.diff(np.concatenate([[0], selects, [len(order)]]))
    )
    name = subject.events["name"][order].astype(np.uint64)
    value = mix(mix(name) + place.astype(np.uint64))
    total = np.append(np.uint64(0), np.cumsum(value, dtype=np.uint64))
    return mix(total[ends] - total[selects]) ^ mix(group[selects])


def _evidence(subject: Subject, selects: Values, first: Values, length: Values) -> Evidence:
    # A round lasts from one select to the next: Python between the operators included.
    start = subject.start_ns[selects]
    spent, saved = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)
    for loop, (begin, rounds) in enumerate(zip(first.tolist(), length.tolist(), strict=True)):
        took = np.diff(start[begin : begin + rounds])
        spent[loop] = took.sum()
        saved[loop] = min((rounds - 1) * int(np.median(took)), spent[loop])
    rounds = int(length.sum())
    return Evidence(
        events=selects[first],
        event_time_ns=spent,
        time_ns=int(spent.sum()),
        explanation=(
            f"{len(first):,} loops went over a tensor element by element, {rounds // len(first):,} "
            f"rounds each on average, {time_text(int(spent.sum()) // rounds)} a round. Every round "
            "is several calls from Python that handle one element."
        ),
        saved_ns=int(saved.sum()),
        saved_by=(
            "the median round of each loop, for all its rounds but one: what a round costs "
            "whatever its element holds"
        ),
    )


FOR_LOOP_INDEXING = Pattern(
    id="for-loop-indexing",
    title="A Python loop goes over the parts of a tensor",
    advice=(
        "Replace the loop by one operation on the whole tensor: arithmetic with broadcasting, "
        "slices, torch.arange, index_select, scatter_ or torch.stack; or torch.vmap the body. Give "
        "a network all samples at once, and a recurrent one all time steps (nn.GRU, nn.LSTM). "
        "torch.func.jacrev gives the gradients of many outputs together, and so does "
        "torch.autograd.grad(..., is_grads_batched=True)."
    ),
    find=_find,
    helped_by=(Needs.SHAPES, Needs.STACKS),
)
