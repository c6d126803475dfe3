"""Nesting of spans by time, and the innermost span at every instant.

Recorded parents do not give that: an annotation begins within the Python call that opens it and
ends later, times in files are rounded, and files of other tools have spans that overlap in any way.
Here each instant of a thread belongs to the running span that began last. A span that begins inside
another and outlasts it ends the other's time, so that spans nest. Exception: a recorded child that
ends after its parent, within rounding, is inside it. Asynchronous spans are not the activity of a
thread: they have no time of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

import opscope._native as _native
from opscope.base.cached_property import cached_property
from opscope.columns.row_groups import group_rows, order_rows
from opscope.columns.trace_data import TraceData, derived
from opscope.timeline.arrays import Flags, Rows, Values
from opscope.timeline.tree.event_tree import event_tree


@dataclass(frozen=True)
class Line:
    """One line of a timeline."""

    name: str  # name of the thread, or ``stream 7``; empty if a thread has none
    number: int  # kernel thread id, or number of the stream
    device: int  # device index of a stream; -1 for a thread
    lane: int  # 0 for the thread or stream itself, from 1 for lanes beside it
    home: int  # row in the same list of the line that this lane is beside; its own row for lane 0
    process: int = -1  # process id of a thread; -1 for the trace's process


@dataclass(frozen=True, eq=False)
class LineNesting:
    """Threads of a trace and their spans; shape (events,) unless noted."""

    threads: list[Line]  # one line per thread of the system
    thread: Rows  # row in ``threads`` of every event
    start_ns: Values  # as recorded
    took_ns: Values  # as recorded, never negative; unfinished spans end with their parent
    parent: Rows  # as recorded
    around: Rows  # span around each by time, or parent of an asynchronous one; -1 for none
    own_ns: Values  # time as the innermost span of its thread
    is_async: Flags  # spans that are not the activity of their thread
    moved: Rows  # rows of spans that do not nest as recorded; of equal rows the last counts
    moved_until_ns: Values  # end of the own time of each

    @property
    def is_as_recorded(self) -> bool:
        """Whether all spans nest by their recorded times."""
        return not len(self.moved) and not self.is_async.any()

    @cached_property
    def until_ns(self) -> Values:
        """End of the own time of each span, so that spans nest."""
        until = self.start_ns + self.took_ns
        until[self.moved] = self.moved_until_ns
        return until

    @cached_property
    def rows(self) -> list[Rows]:
        """Spans of every thread in order of start, without asynchronous ones."""
        rows, begin = rows_by_line(self.thread, len(self.threads))
        found = [rows[first:last] for first, last in pairwise(begin.tolist())]
        if not self.is_async.any():
            return found
        return [own[~self.is_async[own]] for own in found]


@derived
def line_nesting(trace: TraceData) -> LineNesting:
    """Nesting of a trace's spans; cached for each trace."""
    return nest(trace, trace.events["is_async"], trace.events["parent"])


def nest(trace: TraceData, left_out: Flags, parent: npt.NDArray[np.signedinteger]) -> LineNesting:
    """Nesting of the spans that are not ``left_out``; ``parent`` as recorded."""
    tree = event_tree(trace)
    threads, thread = thread_lines(trace)
    start, took = np.ascontiguousarray(tree.start_ns), np.ascontiguousarray(tree.duration_ns)
    if len(took) and took.min() < 0:
        took = np.maximum(took, 0)
    line = np.ascontiguousarray(thread)
    if any_left_out := bool(left_out.any()):
        line = np.where(left_out, np.int32(len(threads)), line)
    parents = np.ascontiguousarray(parent, dtype=np.int32)
    around, own_ns, moved, until = _native.nest_on_lines(start, took, parents, line, len(threads))
    if any_left_out:
        around = np.where(left_out, parents, around)
    return LineNesting(
        threads, thread, start, took, parents, around, own_ns, left_out, moved, until
    )


def thread_lines(trace: TraceData) -> tuple[list[Line], Rows]:
    """A line for every thread of the system, and every event's line."""
    threads, thread = trace.table("threads"), trace.events["thread"]
    if not len(threads):  # a trace of another tool, without a threads table
        return [Line("", 0, -1, 0, 0)], np.zeros(len(thread), dtype=np.int32)
    groups = group_rows(threads["process_id"], threads["system_thread_id"])
    names = [trace.names[threads["name"][t]] for t in groups.first]
    lines = [
        Line(name, number, -1, 0, i, process)
        for i, (name, (process, number)) in enumerate(zip(names, groups.rows(), strict=True))
    ]
    own = groups.group.astype(np.int32)
    # Usually torch's threads are the system's threads, in the same order.
    return lines, thread if np.array_equal(own, np.arange(len(own))) else own[thread]


def rows_by_line(line: Rows, lines: int, by_start: Values | None = None) -> tuple[Rows, Values]:
    """Rows by line in order of start, and where each line begins, shape (lines + 1,)."""
    ordered = line if by_start is None else line[by_start]
    rows = order_rows(ordered)
    begin = np.append(0, np.cumsum(np.bincount(ordered, minlength=lines)))
    return (rows if by_start is None else by_start[rows]).astype(np.int32), begin


def own_times(trace: TraceData) -> Values:
    """Own nanoseconds of every event, shape (events,); cached for each trace."""
    return line_nesting(trace).own_ns


def outermost_of(
    trace: TraceData, events: Values, group: npt.NDArray[np.signedinteger[Any]]
) -> Flags:
    """Which of ``events`` are not, by time, inside another of them of their thread and group.

    ``events``: ascending rows. Shape (events,), as ``group``. A recursive function is one stretch
    of time, however deep.
    """
    start = event_tree(trace).start_ns[events]
    end = line_nesting(trace).until_ns[events]
    if not len(start):
        return np.zeros(0, dtype=np.bool_)
    key = group.astype(np.int64) * len(trace.table("threads")) + trace.events["thread"][events]
    order = order_rows(key)
    key, start, end = key[order], start[order], end[order]
    begins = key[1:] != key[:-1]
    # Groups are shifted apart, so that one running maximum serves them all.
    origin = int(start.min())
    shift = np.append(0, np.cumsum(begins)) * (int(end.max()) - origin + 1) - origin
    reached = np.maximum.accumulate(np.add(end, shift, out=end), out=end)
    result = np.ones(len(order), dtype=np.bool_)
    result[order[1:]] = begins | (np.add(start, shift, out=start)[1:] >= reached[:-1])
    return result
