"""Loops whose rounds need what the round before made: their order stays, whoever runs them."""

from __future__ import annotations

import numpy as np

from opscope.analysis.findings.line_calls import LineCalls
from opscope.analysis.findings.repetition import computed_values
from opscope.analysis.findings.subject import Flags, Subject, Values
from opscope.trace.row_groups import group_rows, order_rows

_GATHERING = ("aten::add", "aten::add_", "aten::mul", "aten::maximum", "aten::minimum", "aten::cat")
_ALIKE = 2
"""What is made in the loop is made in at least one of so many rounds."""

_MOSTLY = 0.5
"""Of a line's rounds, those that have to get what an earlier one made."""


def lines_that_carry(subject: Subject, calls: LineCalls, rounds: Values) -> Flags:
    """Lines that get what a line of their function made a round ago. Shape (lines,).

    ``rounds`` is how often each line was run in a call of its function.
    """
    carries = np.zeros(len(calls.lines), dtype=np.bool_)
    if not len(subject.trace.table("allocations")):
        return carries
    user, maker = _uses(subject)
    group, function = calls.group[calls.row], calls.function[calls.row]
    number = _numbers(subject, calls, rounds)
    at, made_at = _line_of(subject, calls, user), _line_of(subject, calls, maker)
    inside = (at >= 0) & (made_at >= 0)
    at, made_at = at[inside], made_at[inside]
    again = (function[at] == function[made_at]) & (number[made_at] < number[at])
    again &= rounds[group[made_at]] * _ALIKE > rounds[group[at]]
    pairs = group_rows(group[at[again]], at[again]).columns[0]
    count = np.bincount(pairs, minlength=len(carries))
    runs = rounds * np.bincount(
        group_rows(calls.group, calls.function).columns[0], minlength=len(carries)
    )
    return np.asarray(count > _MOSTLY * np.maximum(runs, 1))


def _uses(subject: Subject) -> tuple[Values, Values]:
    """Operators, and those that made one of their arguments.

    But for sums that grow by a part in each round: those can be taken of all parts at once.
    """
    values, name = computed_values(subject), subject.events["name"]
    event, producer = values.event, values.producer
    gathers = subject.named(*_GATHERING)[event] & (name[event] == name[producer])
    known = (producer >= 0) & ~gathers
    return event[known], producer[known]


def _line_of(subject: Subject, calls: LineCalls, events: Values) -> Values:
    """The call that a line of the program made and each operator is, or is in; -1 for none."""
    site = subject.sites.around[events]
    return np.where((site >= 0) & (calls.row[site] >= 0), site, -1)


def _numbers(subject: Subject, calls: LineCalls, rounds: Values) -> Values:
    """Which round of its loop each call of the program's is in, counted by calls like it.

    A line may make like calls more than once a round. Shape (events,).
    """
    name, frame = subject.events["name"], subject.sites.frame
    alike = group_rows(calls.function, calls.group, name[calls.events], frame[calls.events])
    like, count = alike.group, alike.count
    each = np.maximum(count[like] // np.maximum(rounds[calls.group], 1), 1)
    order = order_rows(like)
    place = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
    result = np.zeros(len(subject.parent), dtype=np.int64)
    result[calls.events[order]] = place // each[order]
    return result
