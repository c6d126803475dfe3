"""The lines of a timeline: one per thread and stream, with lanes beside it where spans overlap.

Spans on one line nest, so viewers that draw by nesting (Perfetto, the HTML report) show all of
them. The Chrome writer places spans by the same rule, but numbers its lines as that format needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope import _native
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

    lines: list[Line]  # lane 0 of every thread or stream first, then the others
    line: Rows  # row in ``lines``, shape (rows,)
    duration_ns: Values  # as drawn: never negative, and unfinished spans close with their parent
    by_start: Values | None  # rows in order of start; None where they are in that order already

    def by_line(self) -> tuple[Rows, Values]:
        """Rows line by line in order of start, and where each line begins, shape (lines + 1,)."""
        return rows_by_line(self.line, len(self.lines), self.by_start)


@derived
def place_events(trace: TraceData) -> Placement:
    """Every event on a line of its thread; the same object for the same trace."""
    nesting = line_nesting(trace)
    home, line, order = nesting.threads, nesting.thread, nesting.by_start
    if nesting.is_as_recorded:
        return Placement(home, line, nesting.took_ns, order)
    return _place(home, line, nesting.start_ns, nesting.took_ns, order, yields(trace.events))


def place_gpu(trace: TraceData) -> Placement:
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
        Of each row its line, lanes numbered after the ``lines`` there are; and of each lane the
        line it is beside, and which lane of that it is, from 1.
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
    """Rows in order of start; None if they are in that order already."""
    if np.all(start_ns[1:] >= start_ns[:-1]):
        return None
    return np.argsort(start_ns, kind="stable")
