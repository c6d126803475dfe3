"""Loops over the parts of a tensor, by the lines of the program that they are written in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.analysis.findings.carried import lines_that_carry
from opscope.analysis.findings.line_calls import LineCalls
from opscope.analysis.findings.pattern import Evidence
from opscope.analysis.findings.sites import MOST_PLACES
from opscope.analysis.findings.subject import Flags, Subject, Values
from opscope.analysis.quantity_text import share_text, time_text
from opscope.tree.ancestry import nearest_ancestor, subtree_sums

_FEWEST_ROUNDS = 10
"""In one call of the function that holds the loop."""

_ALIKE = 2.5
"""Lines of one loop are run about equally often: by no more than this factor apart."""

_MOSTLY = 0.5
"""Of a loop's time, what must be calling and not computing."""

_IN_ORDER_PERCENT = 60
"""Of the calling that can be saved where a round needs the one before; nn.GRU measured 40 to 50."""

_LEVELS = 3
"""Calls of the program's own functions between the loop and what handles a part of the tensor."""

_JOINING = ("aten::unbind", "aten::stack", "aten::split", "aten::chunk")
_INDEXING = ("aten::select", "aten::slice", "aten::narrow")


@dataclass(frozen=True)
class _Lines:
    """Lines of the program that call something. Shape (lines,).

    Attributes:
        frame: function, row in frames.
        line: in its file.
        rounds: how often the line was run, about, in a call of its function.
        calls: of its function.
        time_ns: in what it calls, and on the way there.
        work_ns: of that, computing.
        is_step: part of a training step, or loading data, is among what it calls.
        takes_parts: it takes a tensor apart.
        joins: it does so at once, or puts parts together.
    """

    frame: Values
    line: Values
    rounds: Values
    calls: Values
    time_ns: Values
    work_ns: Values
    is_step: Flags
    takes_parts: Flags
    joins: Flags


def find_line_loops(subject: Subject) -> Evidence | None:
    """Loops that mostly call: small pieces of work, each on another part of one tensor."""
    calls = subject.line_calls
    if not len(calls.events):
        return None
    lines = _measure(subject, calls)
    chosen = _loops(lines)
    chosen &= lines.time_ns > 0
    work = np.where(lines.joins & (lines.rounds < _FEWEST_ROUNDS), 0, lines.work_ns)
    saved = np.where(chosen, lines.time_ns - work, 0)
    carries = lines_that_carry(subject, calls, lines.rounds)
    in_order = chosen & np.isin(lines.frame, lines.frame[chosen & carries])
    saved[in_order] = saved[in_order] * _IN_ORDER_PERCENT // 100
    once = np.where(lines.joins & (lines.rounds < _FEWEST_ROUNDS), 0, saved)
    saved = saved - once // np.maximum(lines.rounds, 1)
    chosen &= saved > 0
    if not chosen.any():
        return None
    return _evidence(subject, calls, lines, np.flatnonzero(chosen), saved, bool(in_order.any()))


def _measure(subject: Subject, calls: LineCalls) -> _Lines:
    count = len(calls.lines)
    work = subtree_sums(subject.parent, subject.work_ns)[calls.events]
    whole = subject.is_training | subject.named_like("enumerate(DataLoader)")
    steps = subtree_sums(subject.parent, whole.astype(np.int64))[calls.events]
    functions = np.bincount(
        np.unique(np.stack([calls.group, calls.function]), axis=1)[0], minlength=count
    )
    return _Lines(
        frame=calls.lines[:, 0],
        line=calls.lines[:, 1],
        rounds=_rounds(subject, calls) // np.maximum(functions, 1),
        calls=functions,
        time_ns=_sum(calls.group, calls.took_ns, count),
        work_ns=np.maximum(_sum(calls.group, work, count), 0),
        is_step=_sum(calls.group, steps, count) > 0,
        takes_parts=_takes_parts(subject, calls),
        joins=_joins(subject, calls),
    )


def _joins(subject: Subject, calls: LineCalls) -> Flags:
    """Lines that take a tensor apart at once, or put the parts together."""
    joining = subject.named(*_JOINING)[calls.events]
    inner = subject.sites.around[np.flatnonzero(subject.named(*_JOINING))]
    joining[calls.row[inner[(inner >= 0) & (calls.row[inner] >= 0)]]] = True
    return _sum(calls.group, joining.astype(np.int64), len(calls.lines)) > 0


def _rounds(subject: Subject, calls: LineCalls) -> Values:
    """How often each line was run: the median of how often it calls each thing it calls."""
    what = subject.events["name"][calls.events].astype(np.int64) + 1
    nameless = what == 0
    what[nameless] = -2 - subject.sites.frame[calls.events[nameless]]
    pairs = np.stack([calls.group, what])
    distinct, count = np.unique(pairs, axis=1, return_counts=True)
    order = np.lexsort((count, distinct[0]))
    group, count = distinct[0][order], count[order]
    first = np.searchsorted(group, np.arange(len(calls.lines)))
    last = np.searchsorted(group, np.arange(len(calls.lines)), side="right")
    return np.asarray(count[(first + last - 1) // 2], dtype=np.int64)


def _takes_parts(subject: Subject, calls: LineCalls) -> Flags:
    """Lines where what is called gets many different parts of the same tensor."""
    found = np.zeros(len(calls.lines), dtype=np.bool_)
    above = nearest_ancestor(subject.parent, calls.row >= 0).astype(np.int64)
    event, part = _parts(subject)
    at = np.where(calls.row[event] >= 0, event, above[event])
    for _ in range(_LEVELS):
        known = at >= 0
        event, part, at = event[known], part[known], at[known]
        if not len(at):
            break
        row = calls.row[at]
        keys = np.stack([calls.function[row], calls.group[row], part[:, 0], part[:, 1]])
        distinct = np.unique(keys, axis=1)
        _, first, count = np.unique(distinct[:3], axis=1, return_index=True, return_counts=True)
        found[distinct[1][first[count >= _FEWEST_ROUNDS]]] = True
        at = above[at]
    return found


def _parts(subject: Subject) -> tuple[Values, npt.NDArray[np.int64]]:
    """Outermost operators that got a tensor, with its memory and where in it the tensor begins.

    Where arguments were not recorded: those that index, each with a part of its own.
    """
    tensors = subject.trace.table("tensors")
    if not len(tensors):
        rows = np.flatnonzero(subject.named(*_INDEXING) & (subject.operator_parent < 0))
        return rows, np.stack([np.zeros_like(rows), np.arange(len(rows))], axis=1)
    event = tensors["event"].astype(np.int64)
    rows = np.flatnonzero((subject.operator_parent[event] < 0) & (tensors["storage"] != 0))
    memory = tensors["storage"][rows].astype(np.int64)
    return event[rows], np.stack([memory, tensors["storage_offset"][rows]], axis=1)


def _loops(lines: _Lines) -> Flags:
    """Which lines are in a loop that takes a tensor apart and mostly calls."""
    chosen = np.zeros(len(lines.line), dtype=np.bool_)
    looping = lines.rounds >= _FEWEST_ROUNDS
    for anchor in np.flatnonzero(lines.takes_parts & looping).tolist():
        ratio = lines.rounds / max(int(lines.rounds[anchor]), 1)
        loop = looping & (lines.frame == lines.frame[anchor])
        loop &= (ratio <= _ALIKE) & (ratio >= 1 / _ALIKE)
        if lines.is_step[loop].any():
            continue
        if lines.time_ns[loop].sum() - lines.work_ns[loop].sum() < (
            _MOSTLY * lines.time_ns[loop].sum()
        ):
            continue
        chosen |= loop | (lines.joins & (lines.frame == lines.frame[anchor]) & ~lines.is_step)
    return chosen


def _evidence(
    subject: Subject,
    calls: LineCalls,
    lines: _Lines,
    chosen: Values,
    saved: Values,
    in_order: bool,
) -> Evidence:
    outer = _without_inner(subject, calls, lines, chosen)
    wanted = np.isin(calls.group, outer)
    total = int(lines.time_ns[outer].sum())
    longest = outer[np.argsort(-lines.time_ns[outer])][:MOST_PLACES]
    first = int(longest[0])
    rounds = int(lines.rounds[first])
    each = int(lines.time_ns[first]) // max(rounds * int(lines.calls[first]), 1)
    places = tuple(
        subject.sites.place(
            int(lines.frame[row]), int(lines.line[row]), -1,
            int(lines.rounds[row] * lines.calls[row]), int(lines.time_ns[row]),
        )
        for row in longest.tolist()
    )  # fmt: skip
    work = share_text(int(lines.work_ns[outer].sum()) / max(total, 1))
    return Evidence(
        events=calls.events[wanted],
        event_time_ns=calls.took_ns[wanted],
        time_ns=total,
        explanation=(
            f"A loop goes over the parts of a tensor: {rounds:,} rounds, {time_text(each)} each, "
            f"of which computing is {work}. The rest is calling from Python, once for every part."
        ),
        saved_ns=min(int(saved[outer].sum()), total),
        saved_by=(
            "the time of the loop but one round, without what its operators take beyond the cost "
            "of a call: that remains when all parts are handled at once"
            + (
                f"; {_IN_ORDER_PERCENT} % of it, as each round needs the one before: what "
                "runs them, such as nn.GRU, still calls operators one by one, if not from Python"
                if in_order
                else ""
            )
        ),
        places=places,
    )


def _without_inner(subject: Subject, calls: LineCalls, lines: _Lines, chosen: Values) -> Values:
    """Chosen lines, without those whose time is inside other chosen ones: innermost stay."""
    flagged = np.zeros(len(subject.parent), dtype=np.bool_)
    flagged[calls.events[np.isin(calls.group, chosen)]] = True
    above = nearest_ancestor(subject.parent, flagged)
    inside = np.zeros(len(subject.parent), dtype=np.int64)
    rows = np.flatnonzero(flagged & (above >= 0))
    np.add.at(inside, above[rows], subject.duration_ns[rows])
    within = _sum(calls.group, inside[calls.events], len(lines.line))
    kept = [row for row in chosen.tolist() if within[row] < _MOSTLY * lines.time_ns[row]]
    return np.array(kept or chosen.tolist(), dtype=np.int64)


def _sum(group: Values, values: Values, groups: int) -> Values:
    return np.bincount(group, weights=values, minlength=groups).astype(np.int64)
