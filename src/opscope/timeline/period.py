"""Periods: the part of a trace that views and shares refer to.

By default it is the steady state: the recording without start-up and shut-down, or all of it if no
start-up is found. A share is always of the time from the first start to the last end in the period
(:func:`wall_ns`), in all views. So shares of one thread add up to at most 100 %; those of several
threads add up to more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from opscope.base.quantity_text import time_text
from opscope.base.reused_memory import row_blocks
from opscope.columns.metadata_kinds import SAMPLE
from opscope.columns.part import LATEST_NS, Part
from opscope.columns.trace_data import TraceData, derive, derived
from opscope.errors import UsageError
from opscope.timeline.arrays import Values
from opscope.timeline.detail import detailed_part, has_detail, part_throughout
from opscope.timeline.doubts import doubts_text, require_times
from opscope.timeline.steady_state import StartUp, find_start_up
from opscope.timeline.steps import count_steps, describe_step_boundaries
from opscope.timeline.tree.event_tree import event_tree
from opscope.timeline.typical_stretch import typical_part


class Which(str, Enum):
    """Parts of a recording that can be requested."""

    STEADY = "steady"
    START_UP = "start-up"
    ALL = "all"


@dataclass(frozen=True, eq=False)
class Period:
    """Part of a recording."""

    which: Which  # the requested part
    trace: TraceData  # only that part; the recording itself if the part is all of it
    rows: Values | None  # rows in the recording of its events; None: the same rows
    start_ns: int  # first start in it, Unix nanoseconds
    end_ns: int  # last end in it
    start_up: StartUp  # start-up of the recording
    title: str = ""  # one-line description, if the part's trace is incomplete
    in_detail: bool = False  # the rest of the recording has less detail

    @property
    def wall_ns(self) -> int:
        """Denominator of every share; at least 1. UsageError if no times were recorded."""
        require_times(self.trace)
        return max(self.end_ns - self.start_ns, 1)

    def in_recording(self, events: Values) -> Values:
        """Rows in the recording of this part's events; -1 stays."""
        return events if self.rows is None else np.append(self.rows, -1)[events]

    def __str__(self) -> str:
        """One line: what it is, its length, its steps, and doubts about its times."""
        if self.title:
            return self.title
        if not self.trace.has_times:
            return f"recording; {doubts_text(self.trace)}"
        if self.trace.is_empty:
            return "recording without events"
        count, of_what = count_steps(self.trace)
        title = "part recorded in detail" if self.in_detail else "recording"
        sample = self.trace.metadata.get(SAMPLE, {})
        if self.start_up.took_ns and self.which is not Which.ALL:
            title = "steady state" if self.which is Which.STEADY else "start-up"
        # Two steps may be anything; more are a loop.
        steps = f", {count:,} {of_what}" if count > 1 and title != "start-up" else ""
        of = ""
        if sample:
            title, of = "steady state", f" of {time_text(sample['of_ns'])}"
            if sample["of_steps"]:
                steps, of = f", {sample['steps']:,} of {sample['of_steps']:,} {of_what}", ""
        between = describe_step_boundaries(self.trace)
        steps += f" ({between})" if between else ""
        doubtful = doubts_text(self.trace)
        return f"{title}, {time_text(self.wall_ns)}{of}{steps}{'. ' * bool(doubtful)}{doubtful}"


def no_start_up() -> UsageError:
    """Error for a requested start-up that the recording does not have."""
    return UsageError(
        "This recording has no recognisable start-up, which needs five steps of an optimizer "
        "or calls of a network. Use the whole recording (all)."
    )


def period_of(trace: TraceData, which: Which | str = Which.STEADY) -> Period:
    """One part of a recording; cached for each recording."""
    which, start_up = find_which(which), find_start_up(trace)
    if which is Which.START_UP and not start_up.took_ns:
        raise no_start_up()
    if which is Which.ALL or not (start_up.is_any or has_detail(trace)):
        return _period(which, trace, None, start_up)
    part = derive(trace, which, lambda: _part(trace, which, start_up))
    return _period(which, part.trace, part.rows, start_up)


def detailed_period_of(trace: TraceData, which: Which | str = Which.STEADY) -> Period:
    """One part of a recording, as far as verdict, findings and causes cover it.

    In place of the steady state: its detailed steps, if any, or a typical stretch of a long one.
    """
    which = find_which(which)
    if which is not Which.STEADY:
        return period_of(trace, which)
    if (detailed := detailed_part(trace)) is not None:
        return replace(_of_part(detailed), in_detail=True)
    whole = period_of(trace, which)
    if (typical := typical_part(whole.trace)) is None:
        return whole
    inner = _of_part(typical)
    assert inner.rows is not None
    return replace(inner, rows=whole.in_recording(inner.rows), start_up=whole.start_up)


def _of_part(part: Part) -> Period:
    """The steady state of a part, with rows in the recording."""
    inner = period_of(part.trace)
    return replace(inner, rows=part.rows if inner.rows is None else part.rows[inner.rows])


def _part(trace: TraceData, which: Which, start_up: StartUp) -> Part:
    """A part that is not the whole trace; it refers only to the trace's names.

    Only data recorded throughout: tables must not mix steps in detail with others.
    """
    if which is Which.STEADY:
        return part_throughout(trace, start_up.end_ns, start_up.over_ns or LATEST_NS)
    return part_throughout(trace, 0, start_up.end_ns)


def find_which(which: Which | str) -> Which:
    """The period that a word names; UsageError for an unknown word."""
    try:
        return Which(which)
    except ValueError as error:
        known = ", ".join(one.value for one in Which)
        raise UsageError(
            f"There is no period {which!r} of a recording. Choose one of: {known}."
        ) from error


@derived
def wall_bounds(trace: TraceData) -> tuple[int, int]:
    """First start and last end on all threads and devices; 0 and 0 for nothing."""
    tree, gpu = event_tree(trace), trace.table("gpu")
    spans = ((tree.start_ns, tree.duration_ns), (gpu["start_ns"], gpu["duration_ns"]))
    starts = [int(start.min()) for start, _ in spans if len(start)]
    ends = [
        int((start[rows] + took[rows]).max())
        for start, took in spans
        for rows in row_blocks(len(start))
    ]
    return min(starts, default=0), max(ends, default=0)


def _period(which: Which, trace: TraceData, rows: Values | None, start_up: StartUp) -> Period:
    return Period(which, trace, rows, *wall_bounds(trace), start_up)
