"""The lines of a timeline: one per thread and stream, with lanes beside it where spans overlap.

Spans on one line nest, so viewers that draw by nesting (Perfetto, the HTML report) show all of
them. The Chrome writer places spans by the same rule, but numbers its lines as that format needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any
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
        by_start: rows in order of start; None where they are in that order already.
        nested: where no row had to leave lane 0, the row directly around each by time, -1 for none,
            and what of it none of those covers that it is directly around; shapes (rows,). Else
            None.
    """

    lines: list[Line]
    line: Indices
    duration_ns: Values
    by_start: Values | None
    nested: tuple[Indices, Values] | None = None

    def by_line(self) -> tuple[Indices, Values]:
        """Rows line by line in order of start, and where each line begins, shape (lines + 1,)."""
        order = self.by_start
        line = self.line if order is None else self.line[order]
        rows, begin = _native.rows_by_line(np.ascontiguousarray(line), len(self.lines))
        return (rows if order is None else order[rows].astype(np.int32)), begin

    def rows_of_lines(self) -> list[Indices]:
        """The rows of every line in order of start."""
        rows, begin = self.by_line()
        return [rows[first:last] for first, last in pairwise(begin.tolist())]


_PLACED: WeakKeyDictionary[Trace, Placement] = WeakKeyDictionary()


def place_events(trace: Trace) -> Placement:
    """Every event on a line of its thread; the same object for the same trace."""
    found = _PLACED.get(trace)
    if found is None:
        home, line = _thread_lines(trace)
        found = _PLACED[trace] = _place_events(trace, home, line)
    return found


def _place_events(trace: Trace, home: list[Line], line: Indices) -> Placement:
    tree = event_tree(trace)
    nested = _native.nest_on_lines(
        np.ascontiguousarray(tree.start_ns),
        np.ascontiguousarray(tree.duration_ns),
        np.ascontiguousarray(line),
        len(home),
        tree.by_start,
    )
    if nested is None:
        yielding = yields(trace.events)
        return _place(home, line, tree.start_ns, tree.duration_ns, tree.by_start, yielding)
    return Placement(home, line, tree.duration_ns, tree.by_start, nested)


def place_gpu(trace: Trace) -> Placement:
    """Every row of ``gpu`` on a line of its stream."""
    gpu = trace.table("gpu")
    streams = group_rows(gpu["device_index"], gpu["stream"])
    home = [
        Line(f"stream {stream}", stream, device, 0, i)
        for i, (device, stream) in enumerate(streams.rows())
    ]
    never = np.broadcast_to(np.uint8(0), len(gpu))
    start, took = gpu["start_ns"], gpu["duration_ns"]
    return _place(home, streams.group.astype(np.int32), start, took, _by_start(start), never)


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
    own = groups.group.astype(np.int32)
    # Mostly each thread of torch's is one of the system, in the same order.
    return lines, thread if np.array_equal(own, np.arange(len(own))) else own[thread]


def _place(
    home: list[Line],
    line: Indices,
    start: Values,
    duration: Values,
    order: Values | None,
    yielding: Yields,
) -> Placement:
    if len(duration) and duration.min() < 0:
        duration = np.maximum(duration, 0)
    columns: dict[str, npt.NDArray[Any]] = {
        "track": line,
        "start_ns": start,
        "duration_ns": duration,
        "yields": yielding,
        "order": np.arange(len(start), dtype=np.int32) if order is None else order.astype(np.int32),
    }
    lanes = _native.assign_lanes(columns, tracks=len(home))
    if lanes is None:
        return Placement(home, line, duration, order)
    moved = np.flatnonzero(lanes)
    groups = group_rows(line[moved], lanes[moved])
    beside = [
        Line(home[h].name, home[h].number, home[h].device, lane, h) for h, lane in groups.rows()
    ]
    spread = line.copy()
    spread[moved] = len(home) + groups.group
    return Placement(home + beside, spread, duration, order)


def _by_start(start_ns: Values) -> npt.NDArray[np.int64] | None:
    """Rows in order of start; None if they are in that order already."""
    if np.all(start_ns[1:] >= start_ns[:-1]):
        return None
    return np.argsort(start_ns, kind="stable")
