"""Waits of each thread, and the event that ended each wait."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opscope.analysis.account.helper_threads import is_node
from opscope.analysis.account.pieces import Pieces
from opscope.columns.causes import WAITS, Cause
from opscope.columns.schema import RecordScope
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Flags, Values
from opscope.timeline.stretches import Stretches
from opscope.timeline.tree.event_tree import nearest_ancestor

_SHORTEST_NS = 20_000
"""Minimum length: shorter waits move nothing, and the thread that ended them is uncertain."""

_CLOSE_NS = 1_000_000
"""Maximum time between the end of the other thread's work and the end of the wait."""

_MOSTLY = 0.5


@dataclass(frozen=True, eq=False)
class Waits:
    """Waits of threads. Arrays have shape (pieces,) unless noted."""

    after: Values  # piece of another thread that ended the wait; -1 if no wait or unknown
    leads_on: Flags  # whether the wait continues in the next piece, which has its end
    cuts: Values  # ends of waits, at which pieces have to end too. Shape (moments,)


def find_waits(trace: TraceData, pieces: Pieces) -> Waits:
    """Find waits for other threads; ``graph`` finds those for devices."""
    count = len(pieces)
    after, nothing = np.full(count, -1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    backward = _runs_backward(trace, pieces)
    waiting = np.isin(pieces.cause, (Cause.LOCK, Cause.IDLE)) | _waits_for(backward, pieces)
    if len(pieces.threads) < 2 or not waiting.any():
        return Waits(after, np.zeros(count, dtype=np.bool_), nothing)
    rows = np.flatnonzero(waiting)
    group = _groups(pieces.thread, waiting)
    turns = np.flatnonzero(np.diff(group))
    first, last = rows[np.append(0, turns + 1)], rows[np.append(turns, len(rows) - 1)]
    length = np.bincount(group, weights=pieces.length_ns[rows])
    end = pieces.end_ns
    busy = ~waiting & ~np.isin(pieces.cause, WAITS) & (pieces.event >= 0)
    busy &= pieces.cause != Cause.UNKNOWN
    long = last[length >= _SHORTEST_NS]
    begin_ns = end[long] - length[length >= _SHORTEST_NS].astype(np.int64)
    rests = pieces.cause[long] == Cause.IDLE
    after[long] = _wakers(pieces, busy, long, np.where(rests, end[long], begin_ns))
    leads_on = np.zeros(count, dtype=np.bool_)
    leads_on[rows] = (after[last] >= 0)[group]
    leads_on[last] = False
    known = after[last] >= 0
    known &= (pieces.cause[last] != Cause.IDLE) | backward[after[last]]
    _begun_by_waits(pieces, busy, first[known], after, leads_on, after[last[known]])
    return Waits(after, leads_on, np.unique(end[long]))


def _begun_by_waits(
    pieces: Pieces, busy: Flags, wait: Values, after: Values, leads_on: Flags, ended_by: Values
) -> None:
    """Find idle times that ended when another thread began to wait: that call ended them.

    The engine's threads for backward passes begin when ``backward()`` is called, and that call
    waits for them. Writes ``after`` and ``leads_on``.

    Args:
        busy: pieces in which threads work. Shape (pieces,).
        wait: first piece of each wait with a known end. Shape (waits,).
        ended_by: piece that ended each. Shape (waits,).
    """
    thread, start = pieces.thread, pieces.start_ns
    follows = np.append(False, np.diff(thread) == 0)  # has a previous piece of the same thread
    begins = ~(follows & pieces.is_gap & np.append(False, pieces.is_gap[:-1]))
    gap_start = np.maximum.accumulate(np.where(begins, np.arange(len(start)), 0))
    for number in np.unique(thread[ended_by]).tolist():
        works = np.flatnonzero(busy & (thread == number))
        of_thread = wait[(thread[ended_by] == number) & follows[wait]]
        place = np.searchsorted(start[works], start[of_thread])
        of_thread, place = of_thread[place < len(works)], place[place < len(works)]
        work = works[place]
        gap = np.maximum(work - 1, 0)
        rests = follows[work] & pieces.is_gap[gap]
        rests &= start[gap_start[gap]] <= start[of_thread]
        rests &= start[work] - start[gap_start[gap]] >= _SHORTEST_NS
        for last, caller in zip(gap[rests].tolist(), of_thread[rests].tolist(), strict=True):
            leads_on[gap_start[last] : last] = True
            after[last], leads_on[last] = caller - 1, False


def _groups(thread: Values, waiting: Flags) -> Values:
    """For each waiting piece, the number of its run of waiting pieces of one thread."""
    begins = waiting.copy()
    begins[1:] &= ~waiting[:-1] | (np.diff(thread) != 0)
    number: Values = np.cumsum(begins)[waiting] - 1
    return number


def _wakers(pieces: Pieces, busy: Flags, last: Values, begin_ns: Values) -> Values:
    """Piece of another thread that was busy until about the end of each wait; -1 for none.

    That thread must have been busy most of the time since ``begin_ns``: a thread that only passes
    on another's data, as queue threads do, did not cause the wait.
    """
    thread, end = pieces.thread, pieces.end_ns
    best = np.full(len(last), -1, dtype=np.int64)
    best_end = end[last] - _CLOSE_NS
    for other in np.flatnonzero(np.bincount(thread)).tolist():
        rows = np.flatnonzero(busy & (thread == other))
        if not len(rows):
            continue
        start, took = pieces.start_ns[rows], pieces.length_ns[rows]
        covered = Stretches(start, start + took).covered(begin_ns, end[last])
        place = np.searchsorted(end[rows], end[last], side="right") - 1
        candidate = rows[np.maximum(place, 0)]
        better = (place >= 0) & (end[candidate] > best_end) & (thread[last] != other)
        better &= covered >= _MOSTLY * (end[last] - begin_ns)
        best[better], best_end[better] = candidate[better], end[candidate[better]]
    return best


def _runs_backward(trace: TraceData, pieces: Pieces) -> Flags:
    """Pieces in nodes of a backward pass, and in the engine's calls around them."""
    nodes = is_node(trace) | (trace.events["scope"] == RecordScope.BACKWARD_FUNCTION)
    if not nodes.any():
        return np.zeros(len(pieces), dtype=np.bool_)
    inside = nodes | (nearest_ancestor(pieces.around, nodes) >= 0)
    return np.append(inside, False)[pieces.event]


def _waits_for(backward: Flags, pieces: Pieces) -> Flags:
    """Pieces in which a thread does nothing while another runs its backward pass."""
    result = np.zeros(len(pieces), dtype=np.bool_)
    if len(pieces.threads) < 2 or not backward.any():
        return result
    idle = np.isin(pieces.cause, (Cause.UNKNOWN, Cause.PYTHON, Cause.DISPATCH, Cause.BACKWARD))
    idle &= (pieces.length_ns >= _SHORTEST_NS) & ~backward
    for number in np.flatnonzero(np.bincount(pieces.thread[backward])).tolist():
        chosen = backward & (pieces.thread == number)
        start, took = pieces.start_ns[chosen], pieces.length_ns[chosen]
        covered = Stretches(start, start + took).covered(pieces.start_ns, pieces.end_ns)
        result |= idle & (pieces.thread != number) & (covered > _MOSTLY * pieces.length_ns)
    return result
