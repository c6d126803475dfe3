"""Loops over the parts of a tensor, by the lines of the program that they are written in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opscope.analysis.findings.carried import lines_that_carry
from opscope.analysis.findings.line_calls import FEWEST_ROUNDS, LineCalls
from opscope.analysis.findings.loop_backward import calling_backward_ns
from opscope.analysis.findings.loop_lines import LoopLines, measure_lines, sum_by_line
from opscope.analysis.findings.pattern import Evidence
from opscope.analysis.findings.sites import MOST_PLACES
from opscope.analysis.findings.subject import Flags, Subject, Values
from opscope.analysis.quantity_text import bytes_text, share_text, time_text
from opscope.trace.codes import AllocationAction
from opscope.trace.row_groups import group_rows
from opscope.tree.ancestry import nearest_ancestor

_ALIKE = 2.5
"""Lines of one loop are run about equally often: by no more than this factor apart."""

_MOSTLY = 0.5
"""Of a loop's time, what must be calling and not computing."""

_OF_INNER = 0.2
"""A loop of whose time so much is another's, deeper in, is no loop over parts of its own."""

_IN_ORDER_PERCENT, _LINEAR_PERCENT = 50, 95
"""Of the calling that can be saved where a round needs the one before; nn.GRU measured 40 to 50.

What is multiplied by numbers and added to the rest is a convolution, or a running sum.
"""

_ROUNDS_OF_A_BATCH = 7
"""What torch.func takes to go back over a graph for all outputs at once, in passes for one.

Four networks of linear layers took 5.6 to 7.8.
"""

_NEVER_NS = np.iinfo(np.int64).max

_NUMBERS_BYTES = 1_024
"""More than the results of a round that computes with single numbers."""

_KEPT_BYTES = 16 << 20
"""About so much of what a process gave back it gets again, with the C library's defaults.

More than that in results of all rounds at once is handed out by the kernel anew, page by page,
and 1.5 microseconds for each of 4 KiB are more than most operators take to fill it.
"""


def find_line_loops(subject: Subject) -> Evidence | None:
    """Loops that mostly call: small pieces of work, each on another part of one tensor."""
    calls = subject.line_calls
    if not len(calls.events):
        return None
    lines = measure_lines(subject, calls)
    chosen = _loops(lines)
    chosen &= lines.time_ns > 0
    work = np.where(lines.joins & (lines.rounds < FEWEST_ROUNDS), 0, lines.work_ns)
    saved = np.where(chosen, lines.time_ns - work, 0)
    backward = calling_backward_ns(subject, calls, chosen[calls.group])
    saved += backward
    # A layer for sequences keeps their order by itself.
    carries = lines_that_carry(subject, calls, lines.rounds) & ~lines.runs_layers
    in_order = chosen & np.isin(lines.frame, lines.frame[carries & _innermost(lines, chosen)])
    rounds = chosen & (lines.rounds >= FEWEST_ROUNDS)
    linear = np.isin(lines.frame, lines.frame[rounds & ~lines.is_linear], invert=True)
    chosen &= ~(in_order & ~linear & _takes_coefficients(lines, rounds))
    in_order &= chosen
    percent = np.where(linear, _LINEAR_PERCENT, _IN_ORDER_PERCENT)
    saved[in_order] = saved[in_order] * percent[in_order] // 100
    once = np.where(lines.joins & (lines.rounds < FEWEST_ROUNDS), 0, saved)
    loops = _loops_in_a_call(lines)
    made = _of_functions(lines, np.where(chosen & ~in_order, lines.made_bytes // loops, 0))
    left = np.where(lines.goes_back, _ROUNDS_OF_A_BATCH, 1) * loops * _blocks(made)
    saved = saved - once * left // np.maximum(lines.rounds, left)
    chosen &= saved > 0
    if not chosen.any():
        return None
    saved += _between_lines(subject, calls, lines, chosen)
    saved += _freed_afterwards(subject, calls, lines, chosen)
    found = np.flatnonzero(chosen)
    goes_back = bool(backward[found].any())
    evidence = _evidence(subject, calls, lines, found, saved, in_order, goes_back)
    return _with_blocks(evidence, lines, np.where(chosen, made, 0))


def _innermost(lines: LoopLines, chosen: Flags) -> Flags:
    """Of the chosen lines those that run about as often as any of their function.

    A line that takes a tensor apart for each round of a loop around needs what that loop made in
    the round before; the parts do not need one another.
    """
    _, function = np.unique(lines.frame, return_inverse=True)
    most = np.zeros(len(lines.frame), dtype=np.int64)
    np.maximum.at(most, function, np.where(chosen, lines.rounds, 0))
    return np.asarray(chosen & (lines.rounds * _ALIKE >= most[function]))


def _takes_coefficients(lines: LoopLines, rounds: Flags) -> Flags:
    """Lines of functions whose loops take single numbers, and make tensors of many in each round.

    The numbers are a schedule, as of a diffusion model's steps, not what the loop goes over.
    """
    larger = np.isin(lines.frame, lines.frame[rounds & (lines.part_elements > 1)])
    made = np.where(rounds, lines.made_bytes // np.maximum(lines.rounds, 1), 0)
    state = np.isin(lines.frame, lines.frame[made > _NUMBERS_BYTES])
    return state & ~larger


def _loops_in_a_call(lines: LoopLines) -> Values:
    """How often each line's loop is begun in a call of its function: a round of each stays.

    A loop around it shows in lines beside it that run less often.
    """
    if not len(lines.line):
        return np.ones(0, dtype=np.int64)
    # One number for each line, ordered by function and then by rounds.
    _, function = np.unique(lines.frame, return_inverse=True)
    first = function.astype(np.int64) * (int(lines.rounds.max()) + 1)
    ordered = np.sort(first + lines.rounds)
    place = np.searchsorted(ordered, first + lines.rounds // FEWEST_ROUNDS, side="right") - 1
    # What is found of another function comes out negative.
    return np.where(place >= 0, np.maximum(ordered[place] - first, 1), 1)


def _of_functions(lines: LoopLines, of_lines: Values) -> Values:
    """Of each line the sum over those of its function."""
    _, function = np.unique(lines.frame, return_inverse=True)
    return np.bincount(function, weights=of_lines).astype(np.int64)[function]


def _blocks(made_bytes: Values) -> Values:
    """In how many parts loops are done for what they make to stay in memory that is kept."""
    return np.maximum(-(-made_bytes // _KEPT_BYTES), 1)


def _between_lines(subject: Subject, calls: LineCalls, lines: LoopLines, chosen: Flags) -> Values:
    """Of functions that mostly loop, what is in none of their calls: collections, freeing results.

    It goes with the loop; counted at the first of a function's chosen lines.
    """
    result = np.zeros(len(chosen), dtype=np.int64)
    functions = np.unique(calls.function)
    took = np.bincount(
        subject.sites.frame[functions], weights=subject.duration_ns[functions],
        minlength=int(lines.frame.max()) + 1,
    )  # fmt: skip
    for frame in np.unique(lines.frame[chosen]).tolist():
        own = lines.frame == frame
        looping = int(lines.time_ns[own & chosen].sum())
        if looping > _MOSTLY * took[frame]:
            left = int(took[frame]) - int(lines.time_ns[own].sum())
            result[np.flatnonzero(own & chosen)[0]] = max(left, 0)
    return result


def _freed_afterwards(
    subject: Subject, calls: LineCalls, lines: LoopLines, chosen: Flags
) -> Values:
    """Of functions with such loops, what freeing their results takes once they have returned.

    It is in none of their calls: a function's variables go when it has. Counted at the first of a
    function's chosen lines, up to the last that is freed before something else runs.
    """
    functions = np.unique(calls.function[chosen[calls.group]])
    took = np.zeros(len(functions), dtype=np.int64)
    table, thread = subject.trace.table("allocations"), subject.events["thread"]
    for number in np.unique(thread[functions]).tolist():
        own = np.flatnonzero(thread[functions] == number)
        end = subject.end_ns[functions[own]]
        starts = np.append(np.sort(subject.start_ns[thread == number]), _NEVER_NS)
        until = starts[np.searchsorted(starts, end)]
        is_free = (table["action"] == AllocationAction.FREE) & (table["thread"] == number)
        freed = np.sort(table["time_ns"][is_free])
        first, last = np.searchsorted(freed, end), np.searchsorted(freed, until)
        many = last - first >= FEWEST_ROUNDS
        took[own[many]] = freed[last[many] - 1] - end[many]
    by_frame = np.bincount(subject.sites.frame[functions], weights=took)
    rows = np.flatnonzero(chosen)
    frames, first_line = np.unique(lines.frame[rows], return_index=True)
    result = np.zeros(len(chosen), dtype=np.int64)
    result[rows[first_line]] = by_frame[frames]
    return result


def _loops(lines: LoopLines) -> Flags:
    """Which lines are in a loop that takes a tensor apart and mostly calls."""
    chosen = np.zeros(len(lines.line), dtype=np.bool_)
    looping = lines.rounds >= FEWEST_ROUNDS
    for anchor in np.flatnonzero((lines.part_elements > 0) & looping).tolist():
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
    lines: LoopLines,
    chosen: Values,
    saved: Values,
    in_order: Flags,
    goes_back: bool,
) -> Evidence:
    outer = _without_inner(subject, calls, lines, chosen)
    wanted = np.isin(calls.group, outer)
    total = min(int(lines.time_ns[outer].sum()), subject.wall_ns)
    longest = outer[np.argsort(-lines.time_ns[outer])]
    first = int(longest[0])
    rounds = int(lines.rounds[first])
    each = int(lines.time_ns[first]) // max(rounds * int(lines.calls[first]), 1)
    # What a line calls once and what it calls again and again are at one place.
    distinct = group_rows(lines.frame[longest], lines.line[longest])
    took = np.bincount(distinct.group, weights=lines.time_ns[longest]).astype(np.int64)
    places = tuple(
        subject.sites.place(
            int(lines.frame[row]), int(lines.line[row]), -1,
            int(lines.rounds[row] * lines.calls[row]), int(took[distinct.group[at]]),
        )
        for at, row in enumerate(longest.tolist()) if distinct.first[distinct.group[at]] == at
    )[:MOST_PLACES]  # fmt: skip
    backward = ", and of its backward pass," if goes_back else ""
    work = share_text(int(lines.work_ns[outer].sum()) / max(total, 1))
    return Evidence(
        events=calls.events[wanted],
        event_time_ns=calls.took_ns[wanted],
        time_ns=total,
        explanation=(
            f"A loop goes over the parts of a tensor: {rounds:,} rounds, {time_text(each)} each, "
            f"of which computing is {work}. The rest is calling from Python, once for every part."
        ),
        saved_ns=min(int(saved[outer].sum()), subject.wall_ns),
        saved_by=(
            f"the time of the loop but one round{backward} without what its operators take beyond "
            "the cost of a call: that remains when all parts are handled at once"
            + (
                f"; {_IN_ORDER_PERCENT} % of it, as each round needs the one before: what "
                "runs them, such as nn.GRU, still calls operators one by one, if not from Python"
                if in_order[outer].any()
                else ""
            )
        ),
        places=places,
    )


def _with_blocks(evidence: Evidence, lines: LoopLines, made_bytes: Values) -> Evidence:
    """It, and how many parts at a time, where the results of all at once are too large."""
    most = int(np.argmax(made_bytes))
    if made_bytes[most] <= _KEPT_BYTES:
        return evidence
    parts = max(int(lines.rounds[most]) // int(_blocks(made_bytes)[most]), 1)
    return replace(
        evidence,
        explanation=(
            f"{evidence.explanation} Take some {parts:,} parts at a time: all at once would make "
            f"{bytes_text(int(made_bytes[most]))} of results, and memory of more than "
            f"{bytes_text(_KEPT_BYTES)} is handed out by the kernel anew each time, which takes "
            "longer than filling it."
        ),
    )


def _without_inner(subject: Subject, calls: LineCalls, lines: LoopLines, chosen: Values) -> Values:
    """Chosen lines, without those whose time is inside other chosen ones: innermost stay."""
    flagged = np.zeros(len(subject.parent), dtype=np.bool_)
    flagged[calls.events[np.isin(calls.group, chosen)]] = True
    above = nearest_ancestor(subject.parent, flagged)
    inside = np.zeros(len(subject.parent), dtype=np.int64)
    rows = np.flatnonzero(flagged & (above >= 0))
    np.add.at(inside, above[rows], subject.duration_ns[rows])
    within = sum_by_line(calls.group, inside[calls.events], len(lines.line))
    kept = [row for row in chosen.tolist() if within[row] < _OF_INNER * lines.time_ns[row]]
    return np.array(kept or chosen.tolist(), dtype=np.int64)
