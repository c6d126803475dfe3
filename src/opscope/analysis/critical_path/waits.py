"""Which stretches of a thread were waits, and what ended each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.analysis.account.causes import Cause, is_any
from opscope.analysis.account.event_causes import waits
from opscope.analysis.account.pieces import Pieces
from opscope.trace.schema import RecordScope
from opscope.trace.trace import Trace
from opscope.tree.ancestry import nearest_ancestor

Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_SHORTEST_NS = 20_000
"""Below this a wait moves nothing, and who ended it is anybody's guess."""

_CLOSE_NS = 1_000_000
"""What ended a wait was busy then, or had just been."""

_MOSTLY = 0.5


@dataclass(frozen=True, eq=False)
class Waits:
    """Arrays have shape (pieces,) unless said otherwise.

    Attributes:
        after: the piece of another thread at whose end the wait was over; -1 for what is no wait,
            or where none is known.
        leads_on: the wait goes on in the next piece, which says what ended it.
        cuts: moments at which waits ended, where pieces have to end too. Shape (moments,).
    """

    after: Values
    leads_on: Flags
    cuts: Values


def find_waits(trace: Trace, pieces: Pieces) -> Waits:
    """Waits for other threads; those for devices are found with the devices' work."""
    segments = pieces.segments
    count = len(segments)
    after, nothing = np.full(count, -1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    waiting = is_any(pieces.cause, (Cause.LOCK, Cause.IDLE)) | _waits_for_backward(trace, pieces)
    if len(segments.threads) < 2 or not waiting.any():
        return Waits(after, np.zeros(count, dtype=np.bool_), nothing)
    rows = np.flatnonzero(waiting)
    group = _groups(segments.thread, waiting)
    last = rows[np.append(np.flatnonzero(np.diff(group)), len(rows) - 1)]
    length = np.bincount(group, weights=segments.length_ns[rows])
    end = segments.start_ns + segments.length_ns
    busy = ~waiting & ~waits(pieces.cause) & (segments.event >= 0)
    busy &= pieces.cause != Cause.UNKNOWN
    long = last[length >= _SHORTEST_NS]
    begun = end[long] - length[length >= _SHORTEST_NS].astype(np.int64)
    rests = pieces.cause[long] == Cause.IDLE
    after[long] = _wakers(pieces, busy, long, np.where(rests, end[long], begun))
    leads_on = np.zeros(count, dtype=np.bool_)
    leads_on[rows] = (after[last] >= 0)[group]
    leads_on[last] = False
    return Waits(after, leads_on, np.unique(end[long]))


def _groups(thread: Values, waiting: Flags) -> Values:
    """The number of the run of waiting pieces of one thread that each waiting piece is in."""
    begins = waiting.copy()
    begins[1:] &= ~waiting[:-1] | (np.diff(thread) != 0)
    number: Values = np.cumsum(begins)[waiting] - 1
    return number


def _wakers(pieces: Pieces, busy: Flags, last: Values, begun: Values) -> Values:
    """The piece of another thread that was busy when each wait was over, or until just before.

    That thread has to have been busy most of the time since ``begun``: one that only passes on what
    somebody else sent, as threads of queues do, is not what was waited for.
    """
    segments = pieces.segments
    thread, end = segments.thread, segments.start_ns + segments.length_ns
    best = np.full(len(last), -1, dtype=np.int64)
    best_end = end[last] - _CLOSE_NS
    for other in np.flatnonzero(np.bincount(thread)).tolist():
        rows = np.flatnonzero(busy & (thread == other))
        if not len(rows):
            continue
        start, took = segments.start_ns[rows], segments.length_ns[rows]
        covered = _covered_until(start, took, end[last]) - _covered_until(start, took, begun)
        place = np.searchsorted(end[rows], end[last], side="right") - 1
        candidate = rows[np.maximum(place, 0)]
        better = (place >= 0) & (end[candidate] > best_end) & (thread[last] != other)
        better &= covered >= _MOSTLY * (end[last] - begun)
        best[better], best_end[better] = candidate[better], end[candidate[better]]
    return best


def _waits_for_backward(trace: Trace, pieces: Pieces) -> Flags:
    """Where a thread does nothing itself while another runs its backward pass."""
    segments = pieces.segments
    result = np.zeros(len(segments), dtype=np.bool_)
    is_node = trace.events["scope"] == RecordScope.BACKWARD_FUNCTION
    if len(segments.threads) < 2 or not is_node.any():
        return result
    inside = is_node | (nearest_ancestor(segments.around, is_node) >= 0)
    runs = np.append(inside, False)[segments.event]
    idle = is_any(pieces.cause, (Cause.UNKNOWN, Cause.PYTHON, Cause.DISPATCH))
    idle &= (segments.length_ns >= _SHORTEST_NS) & ~runs
    for number in np.flatnonzero(np.bincount(segments.thread[runs])).tolist():
        chosen = runs & (segments.thread == number)
        start, took = segments.start_ns[chosen], segments.length_ns[chosen]
        covered = _covered_until(start, took, segments.start_ns + segments.length_ns)
        covered -= _covered_until(start, took, segments.start_ns)
        result |= idle & (segments.thread != number) & (covered > _MOSTLY * segments.length_ns)
    return result


def _covered_until(start: Values, took: Values, moment: Values) -> Values:
    """How much of the time before each moment stretches cover, that are in order and apart."""
    total = np.concatenate([[0], np.cumsum(took)])
    place = np.searchsorted(start, moment, side="right")
    last = np.maximum(place - 1, 0)
    into = np.clip(moment - start[last], 0, took[last])
    return np.where(place > 0, total[last] + into, 0)
