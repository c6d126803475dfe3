"""What the lines of the program call, line by line."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope.analysis.findings.sites import Sites
from opscope.trace.row_groups import group_rows, order_rows
from opscope.tree.ancestry import nearest_ancestor

Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


FEWEST_ROUNDS = 10
"""Of a loop, in one call of the function that holds it."""


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

    def __init__(
        self,
        sites: Sites,
        parent: Values,
        times_ns: tuple[Values, Values],
        name: Values,
        *,
        is_pause: Flags,
        is_node: Flags,
    ) -> None:
        start_ns, end_ns = times_ns
        function = nearest_ancestor(parent, sites.frame >= 0).astype(np.int64)
        made = sites.called_here & sites.own_frame[sites.frame[function]] & (function >= 0)
        made &= nearest_ancestor(parent, is_pause) < function
        self.events = np.flatnonzero(made)
        self.function = function[self.events]
        self.row = np.full(len(made), -1, dtype=np.int64)  # of every event, position in `events`
        self.row[self.events] = np.arange(len(self.events))
        self.what, self.counts = self._calls(sites, name, is_node)
        place = sites.frame[self.function], sites.caller_line[self.events]
        lines = group_rows(*place, self._is_often(group_rows(*place).group, parent))
        self.lines, self.group = np.stack(lines.columns[:2], axis=1), lines.group
        self.took_ns = _since_the_last(start_ns, end_ns, self.events, self.function)

    def _calls(self, sites: Sites, name: Values, is_node: Flags) -> tuple[Values, Flags]:
        """``what`` and ``counts``."""
        what = name[self.events].astype(np.int64) + 2
        nameless = what == 1
        what[nameless] = -1 - sites.frame[self.events[nameless]]
        nodes = is_node[self.events]
        what[nodes] = 0
        order = order_rows(self.function, self.events)
        goes_on = np.zeros(len(nodes), dtype=np.bool_)
        goes_on[order[1:]] = nodes[order[:-1]] & (
            self.function[order[1:]] == self.function[order[:-1]]
        )
        return what, ~(nodes & goes_on)

    def _is_often(self, line: Values, parent: Values) -> Flags:
        """What a line calls again and again where it calls something else once.

        But not what happens in the call of that: list() of a generator takes all that this makes.
        """
        distinct = group_rows(line, self.what)
        count = np.bincount(distinct.group, weights=self.counts)
        fewest = np.full(int(line.max(initial=-1)) + 1, np.inf)
        np.minimum.at(fewest, distinct.columns[0], count)
        functions = np.bincount(group_rows(line, self.function).columns[0])
        often = count >= FEWEST_ROUNDS * np.maximum(functions, fewest)[distinct.columns[0]]
        around = nearest_ancestor(parent, self.row >= 0)[self.events]
        inside = around >= 0
        inside[inside] = line[self.row[around[inside]]] == line[inside]
        nested = np.bincount(distinct.group[inside], minlength=len(count)) > 0
        return np.asarray((often & ~nested)[distinct.group])


def _since_the_last(start_ns: Values, end_ns: Values, events: Values, function: Values) -> Values:
    """From the end of what a function called before, or its start, to the end of each call."""
    order = order_rows(function, events)
    ends, begins = end_ns[events][order], start_ns[events][order]
    same = np.append(False, function[order][1:] == function[order][:-1])
    since = np.where(same, np.append(0, ends[:-1]), begins)
    took = np.zeros(len(events), dtype=np.int64)
    took[order] = np.maximum(ends - np.minimum(since, begins), 0)
    return took
