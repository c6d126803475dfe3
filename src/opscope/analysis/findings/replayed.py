"""What a fix saves of a recording in which a thread and devices wait for each other.

A finding says how much less its own events would take: they on the host, and what they launched.
Of that only what others had to wait for makes the program faster: that is what a replay with these
events shortened tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from opscope.analysis.critical_path.graph import PROGRAM, WAITED_FOR, WaitGraph
from opscope.analysis.critical_path.replay import replay
from opscope.analysis.findings.taken import taken, with_calls
from opscope.analysis.findings.unrecorded import Clock

Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Factors = npt.NDArray[np.float64]
Change = tuple[Factors, Flags]
"""What nodes would take, as a multiple, and which would wait for no other any more."""


class Takes(Enum):
    """What of events a fix changes."""

    BOTH = "both"  # the host's time in them, and the work that they launch
    HOST = "host"
    WORK = "work"


@dataclass(frozen=True, eq=False)
class Fix:
    """What some events take once something is changed.

    Attributes:
        events: rows in ``events``, with all that they call. Shape (events,).
        left: what that would take, as a multiple of what it took; they wait for nothing any more.
        takes: the host's time, the devices' or both.
    """

    events: Values
    left: float
    takes: Takes = Takes.BOTH


def apply_fixes(graph: WaitGraph, fixes: Sequence[Fix]) -> Change:
    """What becomes of nodes.

    Args:
        graph: what waited for what.
        fixes: of events in the part of the recording that the graph is of.
    """
    factors, freed = np.ones(len(graph)), np.zeros(len(graph), dtype=np.bool_)
    is_work = graph.gpu >= 0
    of = {Takes.BOTH: np.ones(len(graph), np.bool_), Takes.HOST: ~is_work, Takes.WORK: is_work}
    for fix in fixes:
        inside = _inside(graph, fix.events)
        factors = np.where(inside & of[fix.takes], np.minimum(factors, fix.left), factors)
        if fix.takes is not Takes.WORK:
            freed |= _waits(graph, inside)
    return factors, freed


def taken_from(graph: WaitGraph, alone: Factors, events: Values, saved_ns: float) -> Change:
    """Some events take so much less, with what calls them; waits for other threads go first.

    Args:
        graph: what waited for what.
        alone: what its nodes take if nobody records them, as multiples.
        events: with all that they call, and the work that these launch.
        saved_ns: of the time of the program alone.
    """
    waits = _waits(graph, _inside(graph, events))
    at = graph.before[:, WAITED_FOR]
    of_thread = waits & (np.append(graph.gpu, 0)[at] < 0)
    before = graph.before[:, PROGRAM]
    begin = (graph.start_ns + graph.duration_ns)[before]
    waited = np.where(of_thread & (before >= 0), graph.start_ns - begin, 0)
    own, count = graph.duration_ns * alone, len(graph.around) + 1
    by_event = np.bincount(graph.event % count, weights=own, minlength=count)
    left_ns = max(saved_ns - float(np.maximum(waited, 0).sum()), 0.0)
    shares = taken(np.rint(by_event).astype(np.int64), graph.around, events, left_ns)
    return 1 - shares[graph.event], waits


def _waits(graph: WaitGraph, inside: Flags) -> Flags:
    """Nodes of the host that wait for another thread or a device."""
    waits = inside & (graph.duration_ns == 0) & (graph.before[:, WAITED_FOR] >= 0)
    return np.asarray(waits & (graph.gpu < 0))


def _inside(graph: WaitGraph, events: Values) -> Flags:
    """Nodes that are in some events, or in what these call. Shape (nodes,)."""
    return np.asarray(with_calls(graph.around, events)[graph.event])


def factors_alone(graph: WaitGraph, clock: Clock | None) -> Factors:
    """What nodes take of the time of the program alone, as a multiple. Shape (nodes,)."""
    if clock is None:
        return np.ones(len(graph))
    took = clock.at(graph.start_ns + graph.duration_ns) - clock.at(graph.start_ns)
    of_host = (graph.gpu < 0) & (graph.duration_ns > 0)
    return np.where(of_host, took / np.maximum(graph.duration_ns, 1), 1.0)


def saved_share(graph: WaitGraph, alone: Factors, change: Change) -> float:
    """How much less all of it would take, as a share.

    Args:
        graph: what waited for what.
        alone: what its nodes take if nobody records them, as multiples.
        change: what becomes of them.
    """
    return max(replay(graph, *change, alone).saved_share, 0.0)
