"""The training steps of a trace: its ``ProfilerStep#N`` spans, and what ran in each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.columns.names import step_number
from opscope.columns.row_groups import places_in
from opscope.columns.trace_data import TraceData, derived
from opscope.timeline.tree.event_tree import event_tree

Values = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Steps:
    """One row per ``ProfilerStep#N``, in order of start. All arrays have shape (steps,).

    Attributes:
        number: N.
        event: the span, row in events.
        start_ns: Unix nanoseconds.
        end_ns: Unix nanoseconds.
    """

    number: Values
    event: Values
    start_ns: Values
    end_ns: Values

    def __len__(self) -> int:
        return len(self.number)

    def in_order(self) -> tuple[Values, Values, Values]:
        """When steps begin and end, by start, and of each its row: those of several threads may be
        in another order. Shapes (steps,)."""
        order = np.argsort(self.start_ns, kind="stable")
        return self.start_ns[order], self.end_ns[order], order

    def row_at(self, moments_ns: Values) -> Values:
        """Row of the step that is going on at each moment, -1 for none. Shape as ``moments_ns``."""
        if not len(self):
            return np.full(len(moments_ns), -1, dtype=np.int64)
        start, end, row = self.in_order()
        place = places_in(start, moments_ns, side="right") - 1
        return np.where((place >= 0) & (moments_ns < end[place]), row[place], -1)


@derived
def find_steps(trace: TraceData) -> Steps:
    """The steps of ``trace``; empty if the program never called ``step()``.

    The same object for the same trace.
    """
    number_of = _step_numbers(trace)
    is_step = np.zeros(len(trace.names) + 1, dtype=np.bool_)  # and last, that no name is none
    is_step[list(number_of)] = True
    event = np.flatnonzero(is_step[trace.events["name"]])
    rows = trace.events["name"][event].tolist()
    number = np.array([number_of[row] for row in rows], dtype=np.int64)
    start = trace.events["start_ns"][event]
    return Steps(number, event, start, start + event_tree(trace).duration_ns[event])


def step_of_events(trace: TraceData) -> npt.NDArray[np.int64]:
    """N of the step every event started in, -1 outside all. Shape (events,).

    The recorded ``step`` column where there is one; otherwise by start time, over all threads.
    """
    recorded = trace.events["step"]
    if (recorded >= 0).any():
        return recorded.astype(np.int64)
    steps = find_steps(trace)
    step = np.append(steps.number, -1)[steps.row_at(trace.events["start_ns"])]
    step[steps.event] = steps.number  # a step of no duration still contains itself
    return step


def _step_numbers(trace: TraceData) -> dict[int, int]:
    """N of every row in ``names`` that is a step's."""
    numbers = ((row, step_number(text)) for row, text in enumerate(trace.names))
    return {row: number for row, number in numbers if number is not None}
