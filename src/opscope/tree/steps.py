"""The training steps of a trace: its ``ProfilerStep#N`` spans, and what ran in each."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from opscope.schedule import STEP_PREFIX
from opscope.trace.trace import Trace
from opscope.tree.event_tree import event_tree


@dataclass(frozen=True)
class Steps:
    """One row per ``ProfilerStep#N``, in order of start. All arrays have shape (steps,).

    Attributes:
        number: N.
        event: the span, row in events.
        start_ns: Unix nanoseconds.
        end_ns: Unix nanoseconds.
    """

    number: npt.NDArray[np.int64]
    event: npt.NDArray[np.int64]
    start_ns: npt.NDArray[np.int64]
    end_ns: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.number)


_STEPS: WeakKeyDictionary[Trace, Steps] = WeakKeyDictionary()


def find_steps(trace: Trace) -> Steps:
    """The steps of ``trace``; empty if the program never called ``step()``.

    The same object for the same trace.
    """
    found = _STEPS.get(trace)
    if found is None:
        found = _STEPS[trace] = _find_steps(trace)
    return found


def _find_steps(trace: Trace) -> Steps:
    number_of_name = _step_names(trace)
    names = trace.events["name"]
    event = np.flatnonzero(np.isin(names, list(number_of_name)))
    number = np.array([number_of_name[int(n)] for n in names[event]], dtype=np.int64)
    start = trace.events["start_ns"][event]
    return Steps(number, event, start, start + event_tree(trace).duration_ns[event])


def step_of_events(trace: Trace) -> npt.NDArray[np.int64]:
    """N of the step every event started in, -1 outside all. Shape (events,).

    The recorded ``step`` column where there is one; otherwise by start time, over all threads.
    """
    recorded = trace.events["step"]
    if (recorded >= 0).any():
        return recorded.astype(np.int64)
    steps, start = find_steps(trace), trace.events["start_ns"]
    if not len(steps):
        return np.full(len(start), -1, dtype=np.int64)
    latest = np.searchsorted(steps.start_ns, start, side="right") - 1
    inside = (latest >= 0) & (start < steps.end_ns[latest])
    inside[steps.event] = True  # a step of no duration still contains itself
    return np.where(inside, steps.number[latest], -1)


def _step_names(trace: Trace) -> dict[int, int]:
    """Rows in ``names`` that are steps, and their numbers."""
    used = np.flatnonzero(np.bincount(trace.events["name"] + 1, minlength=1)) - 1
    texts = {row: trace.names[row] for row in used.tolist()}
    steps = {row: text for row, text in texts.items() if text.startswith(STEP_PREFIX)}
    numbers = {row: text.removeprefix(STEP_PREFIX) for row, text in steps.items()}
    return {row: int(number) for row, number in numbers.items() if number.isdecimal()}
