"""Time by source line, from the recorded Python calls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opscope.analysis.sites import Sites
from opscope.columns.location import Location, line_texts
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Rows, Values
from opscope.timeline.listing import TorchListing, measure_device_time
from opscope.timeline.signatures import first_of_each, group_sums
from opscope.timeline.tree.event_tree import (
    Index,
    event_tree,
    minus_children,
    nearest_ancestor,
    subtree_sums,
)
from opscope.timeline.tree.frame_text import python_events
from opscope.timeline.tree.line_nesting import outermost_of
from opscope.timeline.waits import waiting_ns


@dataclass(frozen=True)
class ProgramLine(Location):
    """A line of the program that called something."""

    text: str = ""  # source text; empty if not in the recording
    calls: int = 0  # number of calls from it
    time_ns: int = 0  # time in them, without waits, and without calls of other lines
    waiting_ns: int = 0  # time of waits in these calls


def program_lines(trace: TraceData) -> list[ProgramLine]:
    """Every line of the program that made a recorded call, largest time first."""
    sites, frames, names = Sites(TorchListing(trace)), trace.table("frames"), trace.names
    event = np.flatnonzero(sites.called_here)
    line, caller, number = _lines(sites.caller[event], sites.caller_line[event])
    parent = event_tree(trace).parent
    waited = subtree_sums(parent, waiting_ns(trace))
    time_ns, waiting = (
        np.bincount(line, _without_inner(parent, event, value)[event], len(caller))
        for value in (event_tree(trace).duration_ns - waited, waited)
    )
    counts = np.bincount(line, minlength=len(caller))
    texts = line_texts(trace)
    lines = [
        ProgramLine.at(
            trace,
            frame,
            line_number,
            text=texts.get((names[frames["file"][frame]], line_number), ""),
            calls=int(counts[row]),
            time_ns=int(time_ns[row]),
            waiting_ns=int(waiting[row]),
        )
        for row, (frame, line_number) in enumerate(
            zip(caller.tolist(), number.tolist(), strict=True)
        )
    ]
    return sorted(lines, key=lambda one: -one.time_ns)


def _without_inner(parent: Index, event: Values, value: Values) -> Values:
    """Value of every event in ``event`` without those of others among them."""
    is_call = np.zeros(len(parent), dtype=np.bool_)
    is_call[event] = True
    around = nearest_ancestor(parent, is_call)
    return minus_children(np.where(is_call, around, -1), value)


@dataclass(frozen=True)
class SourceLines:
    """One row per line that called something, in order of first call. Shape (rows,) each."""

    places: list[Location]  # the lines
    calls: Values  # calls made from the line
    total_ns: Values  # time in them; of nested calls of one line the outermost counts
    self_ns: Values  # part of it outside inner calls
    device_ns: Values  # device work launched in them
    call: Values  # every call made from any of them, row of ``events``; shape (calls,)
    line_of_call: Values  # line of each call, row of this table; shape (calls,)

    def __len__(self) -> int:
        return len(self.places)


def source_lines(trace: TraceData, listing: TorchListing | None = None) -> SourceLines:
    """Sum the calls made from every line; empty if no Python calls were recorded."""
    listing = listing or TorchListing(trace)
    # Operators that Python calls without a function, as in x + y, have a table of their own.
    tables = trace.table("python_calls"), trace.table("operator_calls")
    event, callers, numbers = (
        np.concatenate([table[name] for table in tables])
        for name in ("event", "caller", "caller_line")
    )
    made = np.flatnonzero(callers >= 0)
    made = made[np.argsort(event[made], kind="stable")]
    event = event[made].astype(np.int64)
    line, caller, number = _lines(callers[made], numbers[made])
    lines = len(caller)
    is_call = python_events(trace)
    is_call[event] = True
    around = nearest_ancestor(listing.tree.parent, is_call)
    self_ns = minus_children(np.where(is_call, around, -1), listing.duration_ns)
    outermost = outermost_of(trace, event, line)
    device = measure_device_time(listing).total_ns
    return SourceLines(
        places=[
            Location.at(trace, *where)
            for where in zip(caller.tolist(), number.tolist(), strict=True)
        ],
        calls=np.bincount(line, minlength=lines),
        total_ns=group_sums(np.where(outermost, listing.duration_ns[event], 0), line, lines),
        self_ns=group_sums(self_ns[event], line, lines),
        device_ns=group_sums(np.where(outermost, device[event], 0), line, lines),
        call=event,
        line_of_call=line.astype(np.int64),
    )


def _lines(caller: Rows, number: Rows) -> tuple[Values, Values, Values]:
    """Line of every call; frame and number of every line."""
    group, first = first_of_each(caller.astype(np.uint64) << np.uint64(32) | number.view(np.uint32))
    return group, caller[first].astype(np.int64), number[first].astype(np.int64)
