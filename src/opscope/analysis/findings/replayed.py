"""What a fix saves of a recording in which a thread and devices wait for each other.

A finding says how much less its own events would take. Of that only what others had to wait for
makes the program faster: that is what a replay with these events shortened tells.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope.analysis.critical_path.graph import WaitGraph
from opscope.analysis.critical_path.replay import replay
from opscope.tree.ancestry import nearest_ancestor

Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Factors = npt.NDArray[np.float64]


def fix_of(graph: WaitGraph, events: Values, saved_ns: int) -> tuple[Factors, Flags]:
    """What nodes would take, as a multiple, and which would wait for no other any more.

    Args:
        graph: what waited for what.
        events: of the finding, rows in the part of the recording that the graph is of.
        saved_ns: how much less they would take.
    """
    chosen = np.zeros(len(graph.around) + 1, dtype=np.bool_)
    chosen[events] = True
    chosen[:-1] |= nearest_ancestor(graph.around, chosen[:-1]) >= 0
    inside = chosen[graph.event]
    waits = inside & (graph.duration_ns == 0) & (graph.before[:, 1] >= 0) & (graph.gpu < 0)
    # What takes longer on a device than to call is about the device.
    work = inside & (graph.gpu >= 0)
    if 2 * graph.duration_ns[work].sum() >= graph.duration_ns[inside].sum():
        inside = work
    took = int(graph.duration_ns[inside].sum())
    left = 1 - min(saved_ns / took, 1.0) if took else 1.0
    return np.where(inside, left, 1.0), waits


def saved_of(graph: WaitGraph, events: Values, saved_ns: int) -> int:
    """How much less all of it would take: ``saved_ns``, or as much of that as is waited for."""
    if not graph.knows_launches:
        return saved_ns
    factors, freed = fix_of(graph, events, saved_ns)
    result = replay(graph, factors, freed)
    if freed.any():
        return max(min(result.saved_ns, saved_ns), 0)
    if result.changed_ns <= 0:
        return saved_ns  # it is about time outside of its events
    return int(saved_ns * min(max(result.saved_ns / result.changed_ns, 0.0), 1.0))
