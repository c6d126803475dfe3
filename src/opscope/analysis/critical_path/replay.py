"""What a recording takes when parts of it take another time: its graph, replayed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.analysis.critical_path.graph import WaitGraph
from opscope.base.quantity_text import share_text, time_text

Values = npt.NDArray[np.int64]
Factors = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WhatIf:
    """The recording replayed with other durations.

    Attributes:
        before_ns: what the time looked at took, replayed without a change.
        after_ns: what it would take.
        changed_ns: how much less the changed parts would take themselves; what they hide behind, or
            what others have to wait for anyway, saves nothing.
        steps_before_ns: what each step took. Shape (steps,).
        steps_after_ns: what each would take. Shape (steps,).
    """

    before_ns: int
    after_ns: int
    changed_ns: int
    steps_before_ns: Values
    steps_after_ns: Values

    @property
    def saved_ns(self) -> int:
        """How much less it would take; below 0 for more."""
        return self.before_ns - self.after_ns

    @property
    def saved_share(self) -> float:
        """The same as a share of the time."""
        return self.saved_ns / max(self.before_ns, 1)

    def __repr__(self) -> str:
        step = ""
        if len(self.steps_before_ns):
            before, after = (int(np.median(s)) for s in (self.steps_before_ns, self.steps_after_ns))
            step = f"; a step {time_text(before)} → {time_text(after)}"
        times = f"{time_text(self.before_ns)} → {time_text(self.after_ns)}"
        return f"<WhatIf: {times}, saves {share_text(self.saved_share)}{step}>"


def replay(graph: WaitGraph, factors: Factors) -> WhatIf:
    """What a graph takes if each node takes a multiple of what it took.

    Args:
        graph: what waited for what.
        factors: one for each node.
    """
    own = graph.duration_ns
    duration = np.rint(own * factors).astype(np.int64)
    before, _ = graph.ends_with(own)
    after, _ = graph.ends_with(duration)
    start = graph.start_of_time_ns
    edges = _nodes_at_steps(graph, before)
    steps = [np.diff(_at(one, edges, start), axis=0).reshape(-1) for one in (before, after)]
    return WhatIf(
        before_ns=_length_ns(graph, before),
        after_ns=_length_ns(graph, after),
        changed_ns=int((own - duration).sum()),
        steps_before_ns=steps[0],
        steps_after_ns=steps[1],
    )


def _length_ns(graph: WaitGraph, end: Values) -> int:
    start = graph.start_of_time_ns
    return int(end[graph.is_program].max(initial=start)) - start


def _nodes_at_steps(graph: WaitGraph, end: Values) -> Values:
    """The nodes at whose ends each step begins and ends, on the thread of most nodes. (2, steps)"""
    if not len(graph):
        return np.zeros((2, 0), dtype=np.int64)
    own = np.flatnonzero((graph.gpu < 0) & graph.is_program)
    moments = np.stack([graph.steps.start_ns, graph.steps.end_ns])
    place = np.searchsorted(end[own], moments, side="right") - 1
    return np.where(place >= 0, own[np.maximum(place, 0)], -1)


def _at(end: Values, nodes: Values, start_ns: int) -> Values:
    return np.where(nodes >= 0, end[nodes] if len(end) else 0, start_ns)
