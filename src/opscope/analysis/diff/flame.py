"""What a typical step consists of, as a tree: calls in the call they ran in, equal ones as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.analysis.diff.places import comparable_name
from opscope.analysis.diff.step_costs import on_other_threads, steady_steps
from opscope.columns.trace_data import TraceData
from opscope.timeline.steps import Steps
from opscope.timeline.tree.ancestry import depths, levels
from opscope.timeline.tree.frame_text import own_texts
from opscope.timeline.tree.line_nesting import line_nesting

Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Path = tuple[str, ...]

_WORTH_SHOWING = 0.001
"""Of a step."""


@dataclass(frozen=True)
class Flame:
    """One side, all of its recordings together.

    Attributes:
        step_ns: time of a step, in the mean.
        time_ns: of calls, by what they are called and what is around them, outermost first. A call
            comes before those in it.
    """

    step_ns: float
    time_ns: dict[Path, float]


def flame_of(traces: Sequence[TraceData]) -> Flame:
    """The tree of what ran on the threads of steps; without steps there is none."""
    found = [_of_recording(trace) for trace in traces]
    time_ns: dict[Path, float] = {}
    for one in found:
        for path, ns in one.time_ns.items():
            time_ns[path] = time_ns.get(path, 0.0) + ns / len(found)
    step_ns = sum(one.step_ns for one in found) / len(found)
    worth = _WORTH_SHOWING * step_ns
    ordered = sorted(time_ns, key=len)
    return Flame(step_ns, {path: time_ns[path] for path in ordered if time_ns[path] >= worth})


def _of_recording(trace: TraceData) -> Flame:
    steps, _ = steady_steps(trace)
    if not len(steps):
        return Flame(0.0, {})
    parent, inside = _within_steps(trace, steps)
    label, texts = own_texts(trace)
    names = [comparable_name(text) for text in texts]
    nested = line_nesting(trace)
    took = (nested.until_ns - nested.start_ns) / len(steps)
    step_ns = float((steps.end_ns - steps.start_ns).mean())
    paths: list[Path] = [()]
    time_ns: dict[Path, float] = {}
    node = np.zeros(len(parent) + 1, dtype=np.int64)  # the last, -1, stands for the step
    for level in levels(depths(parent)):
        rows = level[inside[level]]
        keys, group = np.unique(node[parent[rows]] * len(names) + label[rows], return_inverse=True)
        total = np.bincount(group.reshape(-1), took[rows], len(keys))
        node[rows] = len(paths) + group.reshape(-1)
        for key, ns in zip(keys.tolist(), total.tolist(), strict=True):
            around, name = divmod(key, len(names))
            paths.append((*paths[around], names[name]))
            time_ns[paths[-1]] = time_ns.get(paths[-1], 0.0) + ns
    return Flame(step_ns, time_ns)


def _within_steps(trace: TraceData, steps: Steps) -> tuple[Values, Flags]:
    """Of every event what it is in, -1 for nothing that is within its step; and which are."""
    nested = line_nesting(trace)
    around, start, end = nested.around, nested.start_ns, nested.until_ns
    step = np.searchsorted(steps.start_ns, start, side="right") - 1
    inside = (step >= 0) & (end <= steps.end_ns[step]) & ~nested.is_async
    inside &= ~on_other_threads(trace, steps)
    inside[steps.event] &= ~(start == steps.start_ns[step])[steps.event]  # the mark of a step
    return np.where(inside & inside[around] & (around >= 0), around, -1), inside
