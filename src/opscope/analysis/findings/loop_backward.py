"""What a backward pass takes for the operators that lines of the program called."""

from __future__ import annotations

import numpy as np

from opscope.analysis.findings.backward_passes import backward_steps, steps_take_ns
from opscope.analysis.findings.line_calls import LineCalls
from opscope.analysis.findings.loop_lines import part_work_ns, sum_by_line
from opscope.analysis.findings.subject import Flags, Subject, Values
from opscope.tree.ancestry import nearest_ancestor

_BACKWARD_WORK = 2
"""A gradient takes so many times the work of what it is of: one for each factor of a product."""


def calling_backward_ns(subject: Subject, calls: LineCalls, chosen: Flags) -> Values:
    """Of each line, what the backward passes of its ``chosen`` calls take beyond computing.

    The gradient of a part of a tensor is as large as all of it, and for each part such a one is
    filled and added: that goes with the loop, as calling does. ``chosen`` has shape (calls,), the
    result (lines,).
    """
    steps, forward = backward_steps(subject)
    lines = np.zeros(len(subject.parent) + 1, dtype=np.bool_)
    lines[calls.events[chosen]] = True
    site = subject.sites.around[forward]
    above = nearest_ancestor(subject.parent, lines[:-1])
    site = np.where(lines[site], site, above[site])
    # A pass that one of the calls makes is among what that takes.
    inside = (forward >= 0) & (site >= 0) & (above[steps] < 0)
    took = steps_take_ns(subject)[inside]
    steps, forward, site = steps[inside], forward[inside], site[inside]
    of_forward = part_work_ns(subject)[subject.outermost_operator[forward]]
    work = _BACKWARD_WORK * np.maximum(of_forward, 0)
    left = np.clip(np.minimum(work, subject.work_ns[steps]), 0, took)
    return sum_by_line(calls.group[calls.row[site]], took - left, len(calls.lines))
