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

FEWEST_ROUNDS = 10  # fewest iterations of a loop in one call of its function


@dataclass(frozen=True, eq=False)
class LineCalls:
    """Calls made from lines of the program, without finalizers run by garbage collections.

    Arrays have shape (calls,) unless stated otherwise.

    Attributes:
        events: row in events of each call or operator, in order.
        function: row in events of the enclosing call of a function of the program.
        row: position of each event in ``events``, -1 for none. Shape (events,).
        what: number of the callee; equal for equal callees.
        counts: whether the call counts for its line. Consecutive nodes of a backward pass without a
            recorded torch function around them count once.
        lines: function (row in frames) and number of each line. Shape (lines, 2).
        group: position in ``lines``.
        took_ns: time since the function's previous call, so with the Python code in between.
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
    """Calls made by all lines of the program."""
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
    """Position of each event in ``events``, -1 for none."""
    row = np.full(size, -1, dtype=np.int64)
    row[events] = np.arange(len(events))
    return row


def since_the_last(times_ns: tuple[Values, Values], events: Values, function: Values) -> Values:
    """Time from the end of the function's previous call, or the call's start, to the call's end."""
    order = order_rows(function, events)
    begins, ends = (times[events][order] for times in times_ns)
    same = np.append(False, function[order][1:] == function[order][:-1])
    since = np.where(same, np.append(0, ends[:-1]), begins)
    took = np.zeros(len(events), dtype=np.int64)
    took[order] = np.maximum(ends - np.minimum(since, begins), 0)
    return took
