"""The graph of waits.

A node is a piece of a thread's time in one span, or one piece of device work. On a thread each node
follows the previous one. A wait is a node without duration that follows what ended it: device work,
or the thread that was busy at its end. A wait that no recorded event ended keeps its duration. Each
dependency has its recorded delay, so that times without a change are the recorded ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import opscope._native as _native
from opscope.analysis.account.helper_threads import is_node
from opscope.analysis.account.pieces import Pieces, pieces_of
from opscope.base.cached_property import cached_property
from opscope.columns.causes import WAITS, Cause
from opscope.columns.labels import DEVICES
from opscope.columns.schema import RecordScope
from opscope.columns.trace_data import TraceData, derive
from opscope.timeline.arrays import Flags, Values
from opscope.timeline.listing import WORK_KINDS
from opscope.timeline.period import Period
from opscope.timeline.steps import Steps, program_steps
from opscope.timeline.stretches import Stretches
from opscope.timeline.tree.event_tree import nearest_ancestor
from opscope.timeline.tree.line_nesting import line_nesting

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


_TIGHT_NS = 5_000  # work that begins this soon after other work waited for it
_FOR_ALL = "DeviceSynchronize"  # name of calls that wait for all streams

_LAUNCH, _STREAM = 0, 1


@dataclass(frozen=True, eq=False)
class DeviceNodes:
    """Work in order of start. Shape (work,) unless noted."""

    row: Values  # row in ``gpu``
    start_ns: Values  # Unix nanoseconds
    end_ns: Values  # Unix nanoseconds
    stream: Values  # row in ``streams``
    launch: Values  # launching call, row in events; -1 for none
    launched_at: Values  # piece of a thread at whose end it was launched; -1 unknown
    earlier: Values  # previous work on its stream and on another; -1 none. (work, 2)
    delay_ns: Values  # delay after its launch and after each of these. Shape (work, 3)
    streams: tuple[str, ...]  # names of streams
    awaited_by: Values  # pieces that wait for work, or would if it took longer. (waits,)
    # last work before the end of the wait and, if the call waits for all streams, last work of
    # another one; -1 for none. Shape (waits, 2)
    awaited: Values

    def before(self, offset: int) -> Values:
        """Predecessors of each, where work has numbers from ``offset`` on. Shape (work, 3)."""
        earlier = np.where(self.earlier >= 0, self.earlier + offset, -1)
        return np.concatenate([self.launched_at[:, None], earlier], axis=1)


def device_nodes(trace: TraceData, pieces: Pieces, waits: Waits) -> DeviceNodes:
    """All work of a trace, and the pieces of threads that waited for it."""
    gpu = trace.table("gpu")
    row = np.flatnonzero(np.isin(gpu["kind"], WORK_KINDS))
    row = row[np.argsort(gpu["start_ns"][row], kind="stable")]
    start = gpu["start_ns"][row].astype(np.int64)
    end = start + gpu["duration_ns"][row]
    keys = [gpu[name][row].astype(np.int64) for name in ("device_type", "device_index", "stream")]
    stream_keys, stream = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)
    stream = stream.reshape(-1)
    launch = gpu["launch"][row].astype(np.int64)
    launched_at = _launched_at(trace, pieces, launch)
    earlier = np.stack(
        [_before_on_stream(stream), _previous_on_other_streams(start, end, stream)], axis=1
    )
    ends = pieces.end_ns
    delay = _delays(start, end, np.append(ends, 0)[launched_at], launched_at, earlier)
    awaited_by, awaited = _awaited(trace, pieces, waits, end, stream)
    names = [f"{DEVICES.get(kind, 'device')}:{i} stream {s}" for kind, i, s in stream_keys.tolist()]
    columns = (row, start, end, stream, launch, launched_at, earlier, delay)
    return DeviceNodes(*columns, tuple(names), awaited_by, awaited)


def _launched_at(trace: TraceData, pieces: Pieces, launch: Values) -> Values:
    """Piece of the launching thread in which each launching call ended; -1 if unknown."""
    events = trace.events
    result = np.full(len(launch), -1, dtype=np.int64)
    launched = np.flatnonzero(launch >= 0)
    calls = launch[launched]
    thread = line_nesting(trace).thread[calls]
    ended = events["start_ns"][calls] + events["duration_ns"][calls]
    begin = np.searchsorted(pieces.thread, np.arange(len(pieces.threads) + 1))
    for one in np.unique(thread).tolist():
        own = thread == one
        start = pieces.start_ns[begin[one] : begin[one + 1]]
        place = np.searchsorted(start, ended[own] - 1, side="right") - 1
        result[launched[own]] = begin[one] + np.maximum(place, 0)
    return result


def _before_on_stream(stream: Values) -> Values:
    order = np.argsort(stream, kind="stable")
    result = np.full(len(stream), -1, dtype=np.int64)
    same = np.flatnonzero(np.diff(stream[order]) == 0)
    result[order[same + 1]] = order[same]
    return result


def _previous_on_other_streams(start: Values, end: Values, stream: Values) -> Values:
    """Work of another stream that ended just before each began; -1 for none."""
    found = last_ended(end, np.arange(len(end)), start)
    tight = (found >= 0) & (start - end[found] < _TIGHT_NS) & (stream[found] != stream)
    return np.where(tight & (start[found] < start), found, -1)


def _delays(start: Values, end: Values, launched: Values, at: Values, earlier: Values) -> Values:
    """Delay after each predecessor; the launch explains what no other one does."""
    after = start[:, None] - np.append(end, 0)[earlier]
    tight = (earlier >= 0) & (after <= _TIGHT_NS)
    since_launch = np.where(at >= 0, start - launched, 0)
    tied = tight.any(axis=1)
    usual = int(np.median(since_launch[(at >= 0) & ~tied])) if ((at >= 0) & ~tied).any() else 0
    delay = np.zeros((len(start), 3), dtype=np.int64)
    delay[:, _LAUNCH] = np.where(tied, np.minimum(since_launch, usual), since_launch)
    delay[:, _STREAM:] = np.where(tight, after, 0)
    # Work with unknown launch, long after the previous work, keeps its distance.
    alone = (at < 0) & (earlier[:, 0] >= 0) & ~tied
    delay[alone, _STREAM] = after[alone, 0]
    return delay


def _awaited(
    trace: TraceData, pieces: Pieces, waits: Waits, end: Values, stream: Values
) -> tuple[Values, Values]:
    """Pieces that wait for a device, and the work they waited for."""
    calls = np.flatnonzero((pieces.cause == Cause.DEVICE) & (waits.after < 0))
    if not len(end) or not len(calls):
        return calls[:0], np.zeros((0, 2), dtype=np.int64)
    over = pieces.start_ns[calls] + pieces.length_ns[calls]
    by_stream = np.stack(
        [last_ended(end, np.flatnonzero(stream == one), over) for one in np.unique(stream)], axis=1
    )
    when = np.where(by_stream >= 0, end[by_stream], -1)
    order = np.argsort(-when, axis=1, kind="stable")[:, :2]
    work = np.take_along_axis(by_stream, order, axis=1)
    work = np.concatenate([work, np.full((len(calls), 1), -1)], axis=1)[:, :2]
    for_all = [_FOR_ALL in trace.event_name(event) for event in pieces.event[calls].tolist()]
    work[:, 1] = np.where(for_all, work[:, 1], -1)
    known = work[:, 0] >= 0
    return calls[known], work[known]


def last_ended(end: Values, rows: Values, moments: Values) -> Values:
    """Row in ``rows`` that ended last before each moment, -1 for none."""
    order = rows[np.argsort(end[rows], kind="stable")]
    return np.append(order, -1)[np.searchsorted(end[order], moments, side="right") - 1]


SLOTS = 3  # maximum number of predecessors of a node; ``native/graph/times.h`` has the same number

PROGRAM, WAITED_FOR, _WAITED_FOR_TOO = 0, 1, 2
"""Slots of a thread's nodes: the previous node, and what ended the wait."""


@dataclass(frozen=True, eq=False)
class WaitGraph:
    """Nodes in topological order. Arrays have shape (nodes,) unless noted."""

    thread: Values  # row of its thread; for streams of devices from the number of threads on
    start_ns: Values  # begin, Unix nanoseconds
    duration_ns: Values  # its own duration: 0 for a wait with a known end
    event: Values  # its span or launching call, row in ``events``; -1 for none
    gpu: Values  # row in ``gpu``, -1 if it is no device work
    before: Values  # predecessors, -1 for none. Shape (nodes, 3)
    delay_ns: Values  # delay after each predecessor. Shape (nodes, 3)
    threads: tuple[str, ...]  # names of threads, then of streams
    around: Values  # event around every event by time, -1 for none. Shape (events,)
    steps: Steps  # steps of the program
    start_of_time_ns: int  # begin of the first node
    wall_ns: int  # from there to the end of the last node

    def __len__(self) -> int:
        return len(self.start_ns)

    @cached_property
    def is_program(self) -> Flags:
        """Nodes of the thread with most nodes in spans, and of devices. Shape (nodes,).

        The program is over when these are: other threads may wait forever.
        """
        spans = (self.gpu < 0) & (self.event >= 0)
        if not spans.any():
            return np.ones(len(self), dtype=np.bool_)
        return np.asarray(
            (self.thread == np.argmax(np.bincount(self.thread[spans]))) | ~(self.gpu < 0)
        )

    def ends_with(self, duration_ns: Values) -> tuple[Values, Values]:
        """End of each node for these durations, and its binding predecessor, -1 for none."""
        durations = np.ascontiguousarray(duration_ns, dtype=np.int64)
        return _native.earliest_ends(self.before, self.delay_ns, durations, self.start_of_time_ns)


def wait_graph(period: Period) -> WaitGraph:
    """Graph of a part of a recording; cached for each part."""
    return derive(period.trace, WaitGraph, lambda: _graph(period))


def _graph(period: Period) -> WaitGraph:
    trace = period.trace
    steps, _ = program_steps(trace)
    bounds = (period.start_ns, period.start_ns + (period.wall_ns if len(trace.events) else 0))
    pieces = pieces_of(trace, steps, bounds)
    waits = find_waits(trace, pieces)
    if len(waits.cuts):
        pieces = pieces_of(trace, steps, bounds, waits.cuts)
        waits = find_waits(trace, pieces)
    work = device_nodes(trace, pieces, waits)
    return _assembled(pieces, waits, work, steps, bounds)


def _assembled(
    pieces: Pieces, waits: Waits, work: DeviceNodes, steps: Steps, bounds: tuple[int, int]
) -> WaitGraph:
    count = len(pieces)
    ended = waits.after >= 0
    end = pieces.end_ns
    before = np.full((count, SLOTS), -1, dtype=np.int64)
    delay = np.zeros((count, SLOTS), dtype=np.int64)
    same_thread = np.flatnonzero(np.diff(pieces.thread) == 0)
    before[same_thread + 1, PROGRAM] = same_thread
    before[:, WAITED_FOR] = waits.after
    delay[:, WAITED_FOR] = np.where(waits.after >= 0, end - end[waits.after], 0)
    first = work.awaited[:, 0]
    waited = work.end_ns[first] > pieces.start_ns[work.awaited_by]
    ended[work.awaited_by] = waited
    after_first = np.where(waited, end[work.awaited_by] - work.end_ns[first], 0)
    for slot, awaited in ((WAITED_FOR, first), (_WAITED_FOR_TOO, work.awaited[:, 1])):
        before[work.awaited_by, slot] = np.where(awaited >= 0, count + awaited, -1)
        delay[work.awaited_by, slot] = after_first
    is_wait = ended | waits.leads_on | _is_final_gap(pieces)
    columns = {
        "thread": (pieces.thread, work.stream + len(pieces.threads)),
        "start_ns": (np.where(is_wait, end, pieces.start_ns), work.start_ns),
        "duration_ns": (np.where(is_wait, 0, pieces.length_ns), work.end_ns - work.start_ns),
        "event": (pieces.event, work.launch),
        "gpu": (np.full(count, -1, dtype=np.int64), work.row),
        "before": (before, work.before(count)),
        "delay_ns": (delay, work.delay_ns),
    }
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    ordered = _in_order(joined, np.concatenate([pieces.start_ns, work.start_ns]))
    names = [line.name or f"thread {line.number}" for line in pieces.threads]
    return WaitGraph(
        **ordered,
        threads=(*names, *work.streams),
        around=pieces.around,
        steps=steps,
        start_of_time_ns=bounds[0],
        wall_ns=bounds[1] - bounds[0],
    )


def _is_final_gap(pieces: Pieces) -> Flags:
    """Final pieces of threads without any event, which delay nothing."""
    last = np.append(np.flatnonzero(np.diff(pieces.thread)), len(pieces) - 1)
    result = np.zeros(len(pieces), dtype=np.bool_)
    for row in last.tolist() if len(pieces) else ():
        while row >= 0 and pieces.event[row] < 0 and not result[row]:
            result[row] = True
            if row == 0 or pieces.thread[row - 1] != pieces.thread[row]:
                break
            row -= 1
    return result


def _in_order(columns: dict[str, Values], began_ns: Values) -> dict[str, Values]:
    """Nodes sorted by begin; dependencies as rows of that order, without later nodes."""
    start, rows = columns["start_ns"], np.arange(len(began_ns))[:, None]
    if (start[1:] >= start[:-1]).all() and (columns["before"] < rows).all():
        return columns
    order = np.lexsort((began_ns, start))
    place = np.empty(len(order) + 1, dtype=np.int64)
    place[order] = np.arange(len(order))
    place[-1] = -1
    sorted_columns = {name: values[order] for name, values in columns.items()}
    before = place[sorted_columns["before"]]
    sorted_columns["before"] = np.ascontiguousarray(np.where(before < rows, before, -1))
    sorted_columns["delay_ns"] = np.ascontiguousarray(sorted_columns["delay_ns"])
    return sorted_columns
