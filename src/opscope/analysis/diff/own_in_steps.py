"""Own time of every event in every step it reaches into.

Most events begin and end in one step. A function that holds the loop, or an annotation around it,
goes on through many: of those, each step gets the part that passed in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.columns.trace_data import TraceData
from opscope.timeline.steps import Steps
from opscope.timeline.tree.line_nesting import line_nesting

Values = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class OwnPieces:
    """What adds up to own times; an event may have several pieces in a step, also negative ones.

    Attributes:
        event: row in events. Shape (pieces,), as all.
        step: row in steps.
        time_ns: of its own.
    """

    event: Values
    step: Values
    time_ns: Values


def own_in_steps(trace: TraceData, steps: Steps) -> OwnPieces:
    """Own times within steps, which do not overlap; what passed outside of them is left out."""
    nested = line_nesting(trace)
    around, start, end = nested.around, nested.start_ns, nested.until_ns
    event = np.flatnonzero(~nested.is_async)
    first = np.searchsorted(steps.end_ns, start[event], side="right")
    last = np.searchsorted(steps.start_ns, end[event], side="left") - 1
    reaches = last >= first
    event, first, last = event[reaches], first[reaches], last[reaches]
    count = last - first + 1
    event, step = np.repeat(event, count), _ranges(first, count)
    passed = np.minimum(end[event], steps.end_ns[step]) - np.maximum(
        start[event], steps.start_ns[step]
    )
    outer = around[event]
    inside = outer >= 0
    return OwnPieces(
        event=np.concatenate([event, outer[inside]]),
        step=np.concatenate([step, step[inside]]),
        time_ns=np.concatenate([passed, -passed[inside]]),
    )


def _ranges(first: Values, count: Values) -> Values:
    """``first``, ``first + 1`` and so on, ``count`` of them, one range after the other."""
    begins = np.cumsum(count) - count
    return np.arange(int(count.sum())) - np.repeat(begins - first, count)
