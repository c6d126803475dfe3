"""The lines of a timeline: one per thread and stream, with lanes beside it where spans overlap.

Spans on one line nest, so viewers that draw by nesting (Perfetto, the HTML report) show all of
them. The Chrome writer places spans by the same rule, but numbers its lines as that format needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.trace.row_groups import group_rows
from opscope.trace.table import Table
from opscope.trace.trace import Trace
from opscope.tree.event_tree import event_tree
from opscope.tree.frame_text import PYTHON_KINDS

Indices = npt.NDArray[np.int32]
Values = npt.NDArray[np.int64]
Yields = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Line:
    """One line.

    Attributes:
        name: the thread's name, or ``stream 7``; empty if a thread has none.
        number: of the thread in the system, or of the stream.
        device: index of the device of a stream; -1 for a thread.
        lane: 0 for the thread or stream itself, from 1 for lanes beside it.
        home: row in the same list of the line this lane is beside; its own row if it is lane 0.
        process: of a thread; -1 for the one that the trace is of.
    """

    name: str
    number: int
    device: int
    lane: int
    home: int
    process: int = -1


@dataclass(frozen=True)
class Placement:
    """The rows of one table on their lines.

    Attributes:
        lines: lane 0 of every thread or stream first, then the others.
        line: row in ``lines``, shape (rows,).
        duration_ns: as drawn: never negative, and unfinished spans close with their parent.
    """

    lines: list[Line]
    line: Indices
    duration_ns: Values

    def by_line(self, start_ns: Values) -> tuple[Indices, Values]:
        """Rows line by line in order of start, and where each line begins, shape (lines + 1,)."""
        order = _by_start(start_ns)
        line = self.line if order is None else self.line[order]
        rows, begin = _native.rows_by_line(np.ascontiguousarray(line), len(self.lines))
        return (rows if order is None else order[rows].astype(np.int32)), begin

    def rows_of_lines(self, start_ns: Values) -> list[Indices]:
        """The rows of every line in order of start."""
        rows, begin = self.by_line(start_ns)
        return [rows[first:last] for first, last in pairwise(begin.tolist())]


_PLACED: WeakKeyDictionary[Trace, Placement] = WeakKeyDictionary()


def place_events(trace: Trace) -> Placement:
    """Every event on a line of its thread; the same object for the same trace."""
    found = _PLACED.get(trace)
    if found is None:
        events = trace.events
        home, line = _thread_lines(trace)
        took = event_tree(trace).duration_ns
        found = _PLACED[trace] = _place(home, line, events, took, yields(events))
    return found


def place_gpu(trace: Trace) -> Placement:
    """Every row of ``gpu`` on a line of its stream."""
    gpu = trace.table("gpu")
    streams = group_rows(gpu["device_index"], gpu["stream"])
    home = [
        Line(f"stream {stream}", stream, device, 0, i)
        for i, (device, stream) in enumerate(streams.rows())
    ]
    never = np.broadcast_to(np.uint8(0), len(gpu))
    return _place(home, streams.group.astype(np.int32), gpu, gpu["duration_ns"], never)


def yields(events: Table) -> Yields:
    """How readily an event leaves its line: Python frames first, then asynchronous spans.

    A step begins inside one call of ``step()`` and ends inside the next. It is the frames of those
    calls that have to go, not the step that everything else is looked up in.
    """
    of_kind = np.zeros(256, dtype=np.uint8)  # by any kind, also one of a newer opscope
    of_kind[list(PYTHON_KINDS)] = 2
    found: Yields = of_kind[events["kind"]]
    return np.maximum(found, events["is_async"]) if events["is_async"].any() else found


def _thread_lines(trace: Trace) -> tuple[list[Line], Indices]:
    """Lane 0 of every thread of the system, and the line of every event."""
    threads, thread = trace.table("threads"), trace.events["thread"]
    if not len(threads):  # a foreign trace without a threads table
        return [Line("", 0, -1, 0, 0)], np.zeros(len(thread), dtype=np.int32)
    groups = group_rows(threads["process_id"], threads["system_thread_id"])
    names = [trace.names[threads["name"][t]] for t in groups.first]
    lines = [
        Line(name, number, -1, 0, i, process)
        for i, (name, (process, number)) in enumerate(zip(names, groups.rows(), strict=True))
    ]
    return lines, groups.group.astype(np.int32)[thread]


def _place(
    home: list[Line], line: Indices, table: Table, duration: Values, yielding: Yields
) -> Placement:
    start = table["start_ns"]
    if len(duration) and duration.min() < 0:
        duration = np.maximum(duration, 0)
    order = _by_start(start)
    columns = {
        "track": line,
        "start_ns": start,
        "duration_ns": duration,
        "yields": yielding,
        "order": np.arange(len(start), dtype=np.int32) if order is None else order.astype(np.int32),
    }
    lanes = _native.assign_lanes(columns, tracks=len(home))
    if lanes is None:
        return Placement(home, line, duration)
    moved = np.flatnonzero(lanes)
    groups = group_rows(line[moved], lanes[moved])
    beside = [
        Line(home[h].name, home[h].number, home[h].device, lane, h) for h, lane in groups.rows()
    ]
    spread = line.copy()
    spread[moved] = len(home) + groups.group
    return Placement(home + beside, spread, duration)


def _by_start(start_ns: Values) -> npt.NDArray[np.int64] | None:
    """Rows in order of start; None if they are in that order already."""
    if np.all(start_ns[1:] >= start_ns[:-1]):
        return None
    return np.argsort(start_ns, kind="stable")
