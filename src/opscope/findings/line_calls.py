"""Calls of each source line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.analysis.sites import Sites
from opscope.columns.row_groups import group_rows, order_rows
from opscope.timeline.tree.event_tree import nearest_ancestor

Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

FEWEST_ROUNDS = 10
"""Of a loop, in one call of the function that holds it."""


@dataclass(frozen=True, eq=False)
class LineCalls:
    """Calls made from lines of the program, without finalizers run by garbage collections.

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
    """Calls of all lines of the program that call something."""
    function = nearest_ancestor(parent, sites.frame >= 0).astype(np.int64)
    made = sites.called_here & sites.own_frame[sites.frame[function]] & (function >= 0)
    made &= nearest_ancestor(parent, is_pause) < function
    events = np.flatnonzero(made)
    function = function[events]
    nodes = is_node[events]
    what = np.where(name[events] >= 0, name[events] + 2, -1 - sites.frame[events])
    order = order_rows(function, events)
    goes_on = np.zeros(len(nodes), dtype=np.bool_)
    goes_on[order[1:]] = nodes[order[:-1]] & (function[order[1:]] == function[order[:-1]])
    lines = group_rows(sites.frame[function], sites.caller_line[events])
    return LineCalls(
        events=events,
        function=function,
        row=positions(events, len(made)),
        what=np.where(nodes, 0, what).astype(np.int64),
        counts=~(nodes & goes_on),
        lines=np.stack(lines.columns, axis=1),
        group=lines.group,
        took_ns=since_the_last(times_ns, events, function),
    )


def positions(events: Values, size: int) -> Values:
    """Position of every event in ``events``, -1 for none."""
    row = np.full(size, -1, dtype=np.int64)
    row[events] = np.arange(len(events))
    return row


def since_the_last(times_ns: tuple[Values, Values], events: Values, function: Values) -> Values:
    """From the end of what a function called before, or its start, to the end of each call."""
    order = order_rows(function, events)
    begins, ends = (times[events][order] for times in times_ns)
    same = np.append(False, function[order][1:] == function[order][:-1])
    since = np.where(same, np.append(0, ends[:-1]), begins)
    took = np.zeros(len(events), dtype=np.int64)
    took[order] = np.maximum(ends - np.minimum(since, begins), 0)
    return took
