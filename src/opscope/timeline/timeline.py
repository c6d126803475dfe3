"""Lines of a timeline: one per thread and stream, with lanes beside it if spans overlap.

Spans on one line nest, so viewers that draw by nesting (Perfetto, the HTML report) show all of
them. The Chrome writer places spans by the same rule, but numbers lines as its format requires.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import opscope._native as _native
from opscope.columns.row_groups import group_rows
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData, derived
from opscope.timeline.arrays import Rows, Values
from opscope.timeline.tree.frame_text import PYTHON_KINDS
from opscope.timeline.tree.line_nesting import Line, line_nesting, rows_by_line

Yields = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Placement:
    """The rows of one table on their lines."""

    lines: list[Line]  # lane 0 of every thread or stream, then the other lanes
    line: Rows  # row in ``lines``, shape (rows,)
    duration_ns: Values  # as drawn: never negative, and unfinished spans end with their parent
    by_start: Values | None  # rows in order of start; None if they already are

    def by_line(self) -> tuple[Rows, Values]:
        """Rows by line in order of start, and where each line begins, shape (lines + 1,)."""
        return rows_by_line(self.line, len(self.lines), self.by_start)


@derived
def place_events(trace: TraceData) -> Placement:
    """Place every event on a line of its thread; cached for each trace."""
    nesting = line_nesting(trace)
    home, line = nesting.threads, nesting.thread
    if nesting.is_as_recorded:
        return Placement(home, line, nesting.took_ns, None)
    return _place(home, line, nesting.start_ns, nesting.took_ns, None, yields(trace.events))


def place_gpu(trace: TraceData) -> Placement:
    """Place every row of ``gpu`` on a line of its stream."""
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
    """Priority with which an event leaves its line: Python frames first, then asynchronous spans.

    A step begins inside one call of ``step()`` and ends inside the next. The frames of these calls
    have to leave, not the step, which other views refer to.
    """
    of_kind = np.zeros(256, dtype=np.uint8)  # by kind, including unknown kinds of a newer opscope
    of_kind[list(PYTHON_KINDS)] = 2
    found: Yields = of_kind[events["kind"]]
    return np.maximum(found, events["is_async"]) if events["is_async"].any() else found


def _place(
    home: list[Line],
    line: Rows,
    start: Values,
    duration: Values,
    order: Values | None,
    yielding: Yields,
) -> Placement:
    if len(duration) and duration.min() < 0:
        duration = np.maximum(duration, 0)
    rows = np.arange(len(start)) if order is None else order
    spread, beside = on_lanes(len(home), line, start, duration, rows, yielding)
    lanes = [Line(home[h].name, home[h].number, home[h].device, lane, h) for h, lane in beside]
    return Placement(home + lanes, spread, duration, order)


def on_lanes(
    lines: int,
    line: Rows,
    start: Values,
    duration: Values,
    order: npt.NDArray[np.integer[Any]],
    yielding: Yields,
) -> tuple[Rows, list[tuple[int, int]]]:
    """Move spans that partly overlap others of their line to lanes beside it, which nest.

    Returns:
        Line of each row, with lanes numbered after the first ``lines``; and for each lane the line
        it is beside, and its number there, from 1.
    """
    columns: dict[str, npt.NDArray[Any]] = {
        "track": line,
        "start_ns": start,
        "duration_ns": duration,
        "yields": yielding,
        "order": order.astype(np.int32),
    }
    lanes = _native.assign_lanes(columns, tracks=lines)
    if lanes is None:
        return line, []
    moved = np.flatnonzero(lanes)
    groups = group_rows(line[moved], lanes[moved])
    spread = line.copy()
    spread[moved] = lines + groups.group
    return spread, [(home, lane) for home, lane in groups.rows()]


def _by_start(start_ns: Values) -> Values | None:
    """Rows in order of start; None if they already are."""
    if np.all(start_ns[1:] >= start_ns[:-1]):
        return None
    return np.argsort(start_ns, kind="stable")
