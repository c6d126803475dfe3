"""What the lines of the program call, line by line."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope.analysis.findings.sites import Sites
from opscope.trace.row_groups import group_rows, order_rows
from opscope.tree.ancestry import nearest_ancestor

Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class LineCalls:
    """What lines of the program call; finalizers that collections run there are not among it.

    Arrays have shape (calls,) unless said otherwise.

    Attributes:
        events: each call or operator, row in events, in order.
        function: the call of the program's function that the line is in, row in events.
        row: of every event its position in ``events``, -1 for none. Shape (events,).
        lines: function (row in frames) and number of each line. Shape (lines, 2).
        group: position in ``lines``.
        took_ns: since what the function called before: with the Python in between.
    """

    def __init__(
        self, sites: Sites, parent: Values, is_pause: Flags, start_ns: Values, end_ns: Values
    ) -> None:
        function = nearest_ancestor(parent, sites.frame >= 0).astype(np.int64)
        made = sites.called_here & sites.own_frame[sites.frame[function]] & (function >= 0)
        made &= nearest_ancestor(parent, is_pause) < function
        self.events = np.flatnonzero(made)
        self.function = function[self.events]
        self.row = np.full(len(made), -1, dtype=np.int64)  # of every event, position in `events`
        self.row[self.events] = np.arange(len(self.events))
        lines = group_rows(sites.frame[self.function], sites.caller_line[self.events])
        self.lines, self.group = np.stack(lines.columns, axis=1), lines.group
        self.took_ns = _since_the_last(start_ns, end_ns, self.events, self.function)


def _since_the_last(start_ns: Values, end_ns: Values, events: Values, function: Values) -> Values:
    """From the end of what a function called before, or its start, to the end of each call."""
    order = order_rows(function, events)
    ends, begins = end_ns[events][order], start_ns[events][order]
    same = np.append(False, function[order][1:] == function[order][:-1])
    since = np.where(same, np.append(0, ends[:-1]), begins)
    took = np.zeros(len(events), dtype=np.int64)
    took[order] = np.maximum(ends - np.minimum(since, begins), 0)
    return took
