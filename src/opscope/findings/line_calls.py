"""What the lines of the program call, line by line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.analysis.sites import Sites
from opscope.columns.row_groups import group_rows, order_rows
from opscope.timeline.tree.ancestry import nearest_ancestor

Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

FEWEST_ROUNDS = 10
"""Of a loop, in one call of the function that holds it."""


@dataclass(frozen=True, eq=False)
class LineCalls:
    """What lines of the program call; finalizers that collections run there are not among it.

    Where a line calls some things again and again and others once, as one with a comprehension does
    from Python 3.12 on, it is two lines here: until 3.11 a comprehension is a function of its own.
    Arrays have shape (calls,) unless said otherwise.

    Attributes:
        events: each call or operator, row in events, in order.
        function: the call of the program's function that the line is in, row in events.
        row: of every event its position in ``events``, -1 for none. Shape (events,).
        what: a number for what is called, equal where that is the same.
        counts: whether it is a call of the line's own. A backward pass is one call, whose nodes
            come one after the other where no function of torch's around them was recorded.
        lines: function (row in frames) and number of each line. Shape (lines, 2).
        group: position in ``lines``.
        took_ns: since what the function called before: with the Python in between.
    """

    events: Values
    function: Values
    row: Values
    what: Values
    counts: Flags
    lines: Values
    group: Values
    took_ns: Values


def calls_of_lines(
    sites: Sites,
    parent: Values,
    times_ns: tuple[Values, Values],
    name: Values,
    *,
    is_pause: Flags,
    is_node: Flags,
) -> LineCalls:
    """Of all lines of the program that call something."""
    function = nearest_ancestor(parent, sites.frame >= 0).astype(np.int64)
    made = sites.called_here & sites.own_frame[sites.frame[function]] & (function >= 0)
    made &= nearest_ancestor(parent, is_pause) < function
    events = np.flatnonzero(made)
    what, counts = _called(sites, events, function[events], name, is_node)
    place = group_rows(sites.frame[function[events]], sites.caller_line[events])
    is_inner = _inside_its_line(parent, events, place.group)
    often = _is_often(place.group, function[events], what, counts, is_inner)
    lines = group_rows(*(column[place.group] for column in place.columns), often)
    return LineCalls(
        events=events,
        function=function[events],
        row=positions(events, len(made)),
        what=what,
        counts=counts,
        lines=np.stack(lines.columns[:2], axis=1),
        group=lines.group,
        took_ns=since_the_last(times_ns, events, function[events]),
    )


def positions(events: Values, size: int) -> Values:
    """Of every event where it is in ``events``, -1 for none."""
    row = np.full(size, -1, dtype=np.int64)
    row[events] = np.arange(len(events))
    return row


def _called(
    sites: Sites, events: Values, function: Values, name: Values, is_node: Flags
) -> tuple[Values, Flags]:
    """``what`` and ``counts``."""
    what = name[events].astype(np.int64) + 2
    nameless = what == 1
    what[nameless] = -1 - sites.frame[events[nameless]]
    nodes = is_node[events]
    what[nodes] = 0
    order = order_rows(function, events)
    goes_on = np.zeros(len(nodes), dtype=np.bool_)
    goes_on[order[1:]] = nodes[order[:-1]] & (function[order[1:]] == function[order[:-1]])
    return what, ~(nodes & goes_on)


def _inside_its_line(parent: Values, events: Values, line: Values) -> Flags:
    """What happens in the call of something at the same line: list() takes all that a generator
    makes."""
    row = positions(events, len(parent))
    around = nearest_ancestor(parent, row >= 0)[events]
    return np.asarray((around >= 0) & (line[row[around]] == line), dtype=np.bool_)


def _is_often(line: Values, function: Values, what: Values, counts: Flags, inner: Flags) -> Flags:
    """What a line calls again and again where it calls something else once."""
    distinct = group_rows(line, what)
    count = np.bincount(distinct.group, weights=counts)
    fewest = np.full(int(line.max(initial=-1)) + 1, np.inf)
    np.minimum.at(fewest, distinct.columns[0], count)
    functions = np.bincount(group_rows(line, function).columns[0])
    often = count >= FEWEST_ROUNDS * np.maximum(functions, fewest)[distinct.columns[0]]
    nested = np.bincount(distinct.group[inner], minlength=len(count)) > 0
    return np.asarray((often & ~nested)[distinct.group])


def since_the_last(times_ns: tuple[Values, Values], events: Values, function: Values) -> Values:
    """From the end of what a function called before, or its start, to the end of each call."""
    order = order_rows(function, events)
    begins, ends = (times[events][order] for times in times_ns)
    same = np.append(False, function[order][1:] == function[order][:-1])
    since = np.where(same, np.append(0, ends[:-1]), begins)
    took = np.zeros(len(events), dtype=np.int64)
    took[order] = np.maximum(ends - np.minimum(since, begins), 0)
    return took
