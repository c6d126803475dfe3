"""The last action of every thread in a recording that was not stopped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from opscope.base.quantity_text import time_text
from opscope.columns.ledger import RECORDER_PREFIX
from opscope.columns.location import thread_name, thread_text
from opscope.columns.metadata_kinds import ENDED
from opscope.columns.trace_data import TraceData

_MOST_AROUND = 3


@dataclass(frozen=True)
class ThreadEnd:
    """Last action of one thread."""

    thread: str  # name and kernel thread id
    name: str  # innermost unfinished span, or the last finished one if all are
    around: tuple[str, ...]  # unfinished spans around it, innermost first
    is_open: bool  # whether it is unfinished
    for_ns: int  # how long it had run, or how long ago it ended

    def __str__(self) -> str:
        if not self.is_open:
            ago = time_text(self.for_ns)
            return f"{self.thread} was in no recorded call; {self.name} had ended {ago} before"
        shown = self.around[:_MOST_AROUND]
        more = ", ..." if len(self.around) > len(shown) else ""
        inside = f", in {', in '.join(shown)}{more}" if shown else ""
        return f"{self.thread} was in {self.name} for {time_text(self.for_ns)}{inside}"


def how_it_ended(trace: TraceData) -> str:
    """How a recording ended that was not stopped; empty for all others."""
    ended = trace.metadata.get(ENDED)
    return str(ended["how"]) if ended else ""


def last_actions(trace: TraceData) -> list[ThreadEnd]:
    """Last action of every thread, unfinished ones first; empty for a complete recording."""
    ended = trace.metadata.get(ENDED)
    if not ended or ended["whole"] or not len(trace.events):
        return []
    found = sorted(_actions(trace), key=lambda found: (not found[1].is_open, -found[0]))
    return [action for _, action in found]


def _actions(trace: TraceData) -> Iterator[tuple[int, ThreadEnd]]:
    """Time of each thread's last event, and its last action."""
    events, end_ns = trace.events, int(trace.metadata["end_ns"])
    ends = events["start_ns"] + events["duration_ns"]
    is_open = events["unfinished"].astype(bool) & (ends >= end_ns)
    numbers = trace.table("threads")["system_thread_id"]
    for thread in np.unique(events["thread"]).tolist():
        if thread_name(trace, int(numbers[thread])).startswith(RECORDER_PREFIX):
            continue  # not a thread of the program
        rows = np.flatnonzero(events["thread"] == thread)
        running = rows[is_open[rows]]
        row = int(running[-1]) if len(running) else int(rows[np.argmax(ends[rows])])
        since_ns = int(events["start_ns"][row]) if len(running) else int(ends[row])
        closed = rows[~is_open[rows]]
        last_ns = max(int(events["start_ns"][rows[-1]]), int(ends[closed].max(initial=0)))
        yield (
            last_ns,
            ThreadEnd(
                thread_text(trace, int(numbers[thread])),
                trace.event_name(row),
                tuple(_around(trace, row)) if len(running) else (),
                bool(len(running)),
                end_ns - since_ns,
            ),
        )


def _around(trace: TraceData, row: int) -> Iterator[str]:
    parents = trace.events["parent"]
    while (row := int(parents[row])) >= 0:
        yield trace.event_name(row)
