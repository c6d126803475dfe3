"""Causes of idle time of a device, from the thread that launched the next work.

A gap ends with a piece of work that some thread launched. If it was launched before the gap, it
waited on the device. If not, the device waited for the thread until the launch, and the thread's
activity is the cause; the rest is the launch on its way to the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from opscope.analysis.account.pieces import Pieces
from opscope.columns.causes import Cause
from opscope.columns.codes import EventKind
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Flags, Values
from opscope.timeline.listing import launched_work
from opscope.timeline.stretches import Stretches
from opscope.timeline.tree.event_tree import outermost_ancestor, subtree_sums
from opscope.timeline.tree.line_nesting import line_nesting

UNKNOWN_THREAD = -1

_LONG_OPERATOR_NS = 1_000_000
"""An operator that launches nothing and takes longer than this computes on the host."""

_LONG_CALL_NS = 10_000_000
"""Maximum duration of a launch. A longer runtime call sets up the device, loads code or waits."""


class Idle(IntEnum):
    """Cause of a device's idle time."""

    LAUNCHING = 0
    HOST = 1
    SYNCHRONISATION = 2
    DATA = 3
    COLLECTIVE = 4
    QUEUED = 5
    NOTHING_LAUNCHED = 6
    UNKNOWN = 7

    @property
    def title(self) -> str:
        """Short name."""
        return _WORDS[self][0]

    @property
    def meaning(self) -> str:
        """Explanation, with what to do."""
        return _WORDS[self][1]


_WORDS = {
    Idle.LAUNCHING: (
        "launch-bound",
        "The host called operators and launched work more slowly than the device computes. "
        "Fewer and larger operators, torch.compile or a CUDA graph help.",
    ),
    Idle.HOST: (
        "waiting for the host",
        "The host did other work: Python, CPU operators, device set-up, garbage collection, "
        "compilation, a lock, sleep, or unrecorded work.",
    ),
    Idle.SYNCHRONISATION: (
        "a synchronisation",
        "The host waited for the device to finish before it launched more: .item(), .cpu(), "
        "torch.cuda.synchronize().",
    ),
    Idle.DATA: ("waiting for data", "The host waited for the DataLoader, a file or a socket."),
    Idle.COLLECTIVE: ("a collective", "The host waited for other ranks."),
    Idle.QUEUED: (
        "between launched work",
        "The next work was already launched: a gap between two kernels, or a wait for a CUDA "
        "event.",
    ),
    Idle.NOTHING_LAUNCHED: (
        "before the first and after the last work",
        "No work was launched yet, or all work was finished.",
    ),
    Idle.UNKNOWN: ("unknown", "The launch of the next work was not recorded."),
}

_OF_CAUSE = {
    Cause.OPERATOR: Idle.LAUNCHING,
    Cause.DISPATCH: Idle.LAUNCHING,
    Cause.DEVICE: Idle.SYNCHRONISATION,
    Cause.LOADER: Idle.DATA,
    Cause.IO: Idle.DATA,
    Cause.COLLECTIVE: Idle.COLLECTIVE,
}
_IDLE_OF = np.array([_OF_CAUSE.get(cause, Idle.HOST) for cause in Cause], dtype=np.int64)
_BY_HOST = (Idle.LAUNCHING, Idle.HOST, Idle.SYNCHRONISATION, Idle.DATA, Idle.COLLECTIVE)


@dataclass(frozen=True, eq=False)
class NextWork:
    """The work that ends each gap. Arrays have shape (gaps,)."""

    launched_ns: Values  # begin of its launch, Unix nanoseconds; undefined if ``thread`` is -1
    thread: Values  # launching thread, row in the pieces' threads; -1 unknown
    is_there: Flags  # whether any work follows
    is_slow: Flags  # whether its launch took too long for a mere launch


def next_work(trace: TraceData, rows: Values, gaps: Stretches) -> NextWork:
    """Work that ends each gap of one device; the first in order of start.

    ``rows``: work of the device, rows in ``gpu`` in order of start.
    """
    gpu, events = trace.table("gpu"), trace.events
    start, launch = gpu["start_ns"][rows], gpu["launch"][rows]
    place = np.searchsorted(start, gaps.end_ns, side="left")
    is_there = place < len(rows)
    call = launch[np.minimum(place, max(len(rows) - 1, 0))] if len(rows) else np.zeros(0, np.int64)
    is_known = is_there & (call >= 0) if len(rows) else is_there
    launched, thread = np.zeros((2, len(gaps)), dtype=np.int64)
    thread[:] = UNKNOWN_THREAD
    is_slow = np.zeros(len(gaps), dtype=np.bool_)
    if is_known.any():
        launched[is_known] = events["start_ns"][call[is_known]]
        thread[is_known] = line_nesting(trace).thread[call[is_known]]
        is_slow[is_known] = _is_long_call(trace)[call[is_known]]
    return NextWork(launched, thread, is_there, is_slow)


def idle_of_pieces(trace: TraceData, pieces: Pieces) -> Values:
    """Cause (``Idle``) of a device's idle time during each piece. Shape (pieces,).

    Operators and runtime calls count as launching if they launch something, or are short.
    """
    result = _IDLE_OF[pieces.cause]
    event = pieces.event
    calling = np.flatnonzero((result == Idle.LAUNCHING) & (event >= 0))
    computes = _computes_on_host(trace)
    result[calling[computes[event[calling]]]] = Idle.HOST
    return result


def _computes_on_host(trace: TraceData) -> Flags:
    """Events that are, or are inside, an operator that computes on the host, or a runtime call that
    does more than launch. Shape (events,)."""
    events, gpu = trace.events, trace.table("gpu")
    parent, kind = events["parent"], events["kind"]
    launched = np.bincount(gpu["launch"][launched_work(trace)], minlength=len(events))
    operator = outermost_ancestor(parent, kind == EventKind.OPERATOR)
    launches_nothing = subtree_sums(parent, launched) == 0
    long = launches_nothing & (events["duration_ns"] >= _LONG_OPERATOR_NS)
    slow_call = outermost_ancestor(parent, _is_long_call(trace)) >= 0
    return np.asarray(slow_call | np.append(long, False)[operator])


def _is_long_call(trace: TraceData) -> Flags:
    events = trace.events
    is_call = events["kind"] == EventKind.RUNTIME_CALL
    return np.asarray(is_call & (events["duration_ns"] >= _LONG_CALL_NS))


def idle_by_cause(pieces: Pieces, idle: Values, gaps: Stretches, ended_by: NextWork) -> Values:
    """Time of each gap of a device by cause, shape (gaps, len(Idle)); rows sum to the gaps.

    ``idle``: from :func:`idle_of_pieces`; ``ended_by``: work that ends each gap.
    """
    result = np.zeros((len(gaps), len(Idle)), dtype=np.int64)
    length = gaps.end_ns - gaps.start_ns
    result[~ended_by.is_there, Idle.NOTHING_LAUNCHED] = length[~ended_by.is_there]
    unknown = ended_by.is_there & (ended_by.thread < 0)
    result[unknown, Idle.UNKNOWN] = length[unknown]
    gap = np.flatnonzero(ended_by.is_there & (ended_by.thread >= 0))
    launched = ended_by.launched_ns[gap].clip(gaps.start_ns[gap], gaps.end_ns[gap])
    was_queued = ended_by.launched_ns[gap] < gaps.start_ns[gap]
    on_its_way = gaps.end_ns[gap] - launched
    result[gap, Idle.QUEUED] = np.where(was_queued, on_its_way, 0)
    is_slow = ended_by.is_slow[gap]
    result[gap, Idle.LAUNCHING] = np.where(was_queued | is_slow, 0, on_its_way)
    result[gap, Idle.HOST] = np.where(~was_queued & is_slow, on_its_way, 0)
    threads = ended_by.thread[gap]
    for thread in np.unique(threads).tolist():
        own = np.flatnonzero(threads == thread)
        rows, start, end = gap[own], gaps.start_ns[gap[own]], launched[own]
        result[rows] += _host_time(pieces, idle, thread, start, end)
    return result


def _host_time(pieces: Pieces, idle: Values, thread: int, start: Values, end: Values) -> Values:
    """Time of one thread in each stretch, by ``Idle``. Shape (stretches, len(Idle)).

    After the host has waited for the device to finish, launching again counts as synchronisation.
    """
    own = np.flatnonzero(pieces.thread == thread)
    begins = pieces.start_ns[own]
    ends, idle_of_piece = begins + pieces.length_ns[own], idle[own]
    result = np.zeros((len(start), len(Idle)), dtype=np.int64)
    for cause in _BY_HOST:
        chosen = idle_of_piece == cause
        result[:, cause] = Stretches(begins[chosen], ends[chosen]).covered(start, end)
    result[:, Idle.HOST] += end - start - result.sum(axis=1)  # unrecorded
    place = np.searchsorted(begins, start, side="right") - 1
    at = np.maximum(place, 0)
    drained = (place >= 0) & (idle_of_piece[at] == Idle.SYNCHRONISATION) & (start < ends[at])
    result[drained, Idle.SYNCHRONISATION] += result[drained, Idle.LAUNCHING]
    result[drained, Idle.LAUNCHING] = 0
    return result
