"""Training steps of a trace: ``ProfilerStep#N`` spans, or steps found otherwise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opscope.base.quantity_text import share_text
from opscope.columns.metadata_kinds import BETWEEN, STEPS
from opscope.columns.names import step_number
from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData, derived
from opscope.timeline.arrays import Values
from opscope.timeline.tree.event_tree import event_tree, events_named, nearest_ancestor


@dataclass(frozen=True)
class Steps:
    """One row per ``ProfilerStep#N``, in order of start. All arrays have shape (steps,)."""

    number: Values  # N
    event: Values  # row of the span in events
    start_ns: Values  # Unix nanoseconds
    end_ns: Values  # Unix nanoseconds

    def __len__(self) -> int:
        return len(self.number)

    def row_at(self, moments_ns: Values) -> Values:
        """Row of the step at each moment, -1 for none. Shape as ``moments_ns``."""
        if not len(self):
            return np.full(len(moments_ns), -1, dtype=np.int64)
        row = np.searchsorted(self.start_ns, moments_ns, side="right") - 1
        return np.where((row >= 0) & (moments_ns < self.end_ns[row]), row, -1)


@derived
def find_steps(trace: TraceData) -> Steps:
    """Steps that ``trace`` marks; empty if the program never called ``step()``."""
    event = np.flatnonzero(events_named(trace, lambda name: step_number(name) is not None))
    numbers = [step_number(trace.event_name(row)) for row in event.tolist()]
    number = np.array(numbers, dtype=np.int64)
    start = trace.events["start_ns"][event]
    return Steps(number, event, start, start + event_tree(trace).duration_ns[event])


def step_of_events(trace: TraceData) -> Values:
    """N of the step every event started in, -1 outside all. Shape (events,).

    From the ``step`` column if recorded; otherwise by start time, over all threads.
    """
    recorded = trace.events["step"]
    if (recorded >= 0).any():
        return recorded.astype(np.int64)
    steps = find_steps(trace)
    step = np.append(steps.number, -1)[steps.row_at(trace.events["start_ns"])]
    step[steps.event] = steps.number  # a step without duration still contains itself
    return step


_FEWEST = 2  # minimum number of steps without marks: one may be anything
OPTIMIZER_STEP = "Optimizer.step#"
"""Part of the name of torch's annotation around a step of an optimizer."""

OF_SCHEDULE = ""
OF_OPTIMIZER = "from the end of one Optimizer.step to the end of the next"
OF_NETWORK = "from the beginning of one call of the network to the beginning of the next"


def program_steps(trace: TraceData) -> tuple[Steps, str]:
    """Steps, marked or found, and in words what delimits found ones; empty if there are none."""
    steps = find_steps(trace)
    if len(steps):
        return steps, OF_SCHEDULE
    ends = event_tree(trace).start_ns + event_tree(trace).duration_ns
    rows = optimizer_steps(trace)
    if len(rows) > _FEWEST:
        rows = rows[np.argsort(ends[rows], kind="stable")]  # by end, because of several threads
        # Before the first end there may be start-up, so it ends no step.
        return _steps(rows[1:], ends[rows[:-1]], ends[rows[1:]]), OF_OPTIMIZER
    calls = module_calls(trace)
    if len(calls) < _FEWEST:
        return steps, OF_SCHEDULE
    start = event_tree(trace).start_ns[calls]
    return _steps(calls, start, np.append(start[1:], ends[calls[-1]])), OF_NETWORK


def _steps(rows: Values, start: Values, end: Values) -> Steps:
    return Steps(np.arange(len(rows)), rows, start, np.maximum(end, start))


def count_steps(trace: TraceData) -> tuple[int, str]:
    """Number of steps in a trace, and what they are, in words; 0 if there are none."""
    if scheduled := len(find_steps(trace)):
        return scheduled, "steps"
    if steps := len(optimizer_steps(trace)):
        return steps, "steps of the optimizer"
    return len(module_calls(trace)), "calls of the network"


@derived
def optimizer_steps(trace: TraceData) -> Values:
    """Rows of calls of ``Optimizer.step``, without those inside another."""
    wanted = events_named(trace, lambda name: OPTIMIZER_STEP in name)
    wanted &= trace.events["kind"] == EventKind.ANNOTATION
    inside = nearest_ancestor(event_tree(trace).parent, wanted)
    return np.flatnonzero(wanted & (inside < 0))


@derived
def module_calls(trace: TraceData) -> Values:
    """Rows of outermost calls of the module that most often is the outermost one."""
    is_module = trace.events["kind"] == EventKind.MODULE_CALL
    if not is_module.any():
        return np.zeros(0, dtype=np.int64)
    inside = nearest_ancestor(event_tree(trace).parent, is_module)
    rows = np.flatnonzero(is_module & (inside < 0))
    _, group, count = np.unique(trace.events["name"][rows], return_inverse=True, return_counts=True)
    return np.asarray(rows[group.reshape(-1) == int(np.argmax(count))], dtype=np.int64)


_NEARLY_ALL = 0.75
"""A larger share of steps leaves no clear time between them, because their durations vary."""


def share_of_program(trace: TraceData) -> float | None:
    """Share of the program's time that its steps take, at most 1; None if unknown."""
    if (outside := trace.metadata.get(BETWEEN)) is not None:
        return 1.0 - float(outside)
    seen, (steps, _) = trace.metadata.get(STEPS), program_steps(trace)
    took_ns = steps.end_ns - steps.start_ns
    if seen is None or seen["ended"] < 2 or not len(took_ns):
        return None
    passed_ns, inside_ns = seen["passed_ns"], (seen["ended"] - 1) * float(np.mean(took_ns))
    return min(inside_ns / passed_ns, 1.0) if passed_ns > 0 else None


def describe_step_boundaries(trace: TraceData) -> str:
    """Text about time outside steps, to follow a description; empty if it is short."""
    share = share_of_program(trace)
    if share is not None and STEPS not in trace.metadata:
        return (
            f"between or after steps, where the program spends {share_text(1 - share)} of its time "
            "from its first step on"
        )
    if share is None or share >= _NEARLY_ALL:
        return ""
    between = share_text(1 - share)
    look = ": look there first" if share < 0.5 else ""
    return (
        f"recorded steps cover {share_text(share)} of the program's time from its first step on; "
        f"{between} passed between or after steps, outside this part{look}"
    )
