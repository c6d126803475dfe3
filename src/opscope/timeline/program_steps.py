"""Steps of a program, whether it marks them or not.

A schedule marks them. Else a step ends with the optimizer's ``step``; and in a program without an
optimizer each outermost call of its network is one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData
from opscope.timeline.steps import Steps, find_steps
from opscope.timeline.tree.ancestry import nearest_ancestor
from opscope.timeline.tree.event_tree import event_tree

Values = npt.NDArray[np.int64]

_FEWEST = 2
"""Steps that are found: one alone may be anything."""

OF_SCHEDULE = ""
OF_OPTIMIZER = "from the end of one Optimizer.step to the end of the next"
OF_NETWORK = "from the beginning of one call of the network to the beginning of the next"


def program_steps(trace: TraceData) -> tuple[Steps, str]:
    """The steps, and what they are where nothing marks them; empty where there are none."""
    steps = find_steps(trace)
    if len(steps):
        return steps, OF_SCHEDULE
    ends = event_tree(trace).start_ns + event_tree(trace).duration_ns
    rows = optimizer_steps(trace)
    if len(rows) > _FEWEST:
        rows = rows[np.argsort(ends[rows], kind="stable")]  # of several threads, as they end
        # What comes before the first end may be the start of the program, and no step.
        return _steps(rows[1:], ends[rows[:-1]], ends[rows[1:]]), OF_OPTIMIZER
    calls = module_calls(trace)
    if len(calls) < _FEWEST:
        return steps, OF_SCHEDULE
    start = event_tree(trace).start_ns[calls]
    return _steps(calls, start, np.append(start[1:], ends[calls[-1]])), OF_NETWORK


def _steps(rows: Values, start: Values, end: Values) -> Steps:
    return Steps(np.arange(len(rows)), rows, start, np.maximum(end, start))


def count_steps(trace: TraceData) -> tuple[int, str]:
    """How many steps there are in a trace, and what they are, in words; 0 where there are none."""
    if scheduled := len(find_steps(trace)):
        return scheduled, "steps"
    if steps := len(optimizer_steps(trace)):
        return steps, "steps of the optimizer"
    return len(module_calls(trace)), "calls of the network"


def optimizer_steps(trace: TraceData) -> Values:
    """Calls of ``Optimizer.step``, rows, without those inside another."""
    events = trace.events
    used = np.flatnonzero(np.bincount(events["name"] + 1, minlength=1)) - 1
    names = [row for row in used.tolist() if row >= 0 and "Optimizer.step#" in trace.names[row]]
    wanted = np.isin(events["name"], names) & (events["kind"] == EventKind.ANNOTATION)
    inside = nearest_ancestor(event_tree(trace).parent, wanted)
    return np.flatnonzero(wanted & (inside < 0))


def module_calls(trace: TraceData) -> Values:
    """Outermost calls of the module that is called most often as an outermost one, rows."""
    is_module = trace.events["kind"] == EventKind.MODULE_CALL
    if not is_module.any():
        return np.zeros(0, dtype=np.int64)
    inside = nearest_ancestor(event_tree(trace).parent, is_module)
    rows = np.flatnonzero(is_module & (inside < 0))
    _, group, count = np.unique(trace.events["name"][rows], return_inverse=True, return_counts=True)
    return np.asarray(rows[group.reshape(-1) == int(np.argmax(count))], dtype=np.int64)
