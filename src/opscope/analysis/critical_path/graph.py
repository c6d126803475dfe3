"""The graph of waits.

A node is a piece of a thread's time in one span, or one piece of device work. On a thread each node
follows the previous one. A wait is a node without duration that follows what ended it: device work,
or the thread that was busy at its end. A wait that no recorded event ended keeps its duration. Each
dependency has its recorded delay, so that times without a change are the recorded ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opscope import _native
from opscope.analysis.account.pieces import Pieces, pieces_of
from opscope.analysis.critical_path.device_nodes import DeviceNodes, device_nodes
from opscope.analysis.critical_path.waits import Waits, find_waits
from opscope.base.cached_property import cached_property
from opscope.columns.trace_data import derive
from opscope.timeline.arrays import Flags, Values
from opscope.timeline.period import Period
from opscope.timeline.steps import Steps, program_steps

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
