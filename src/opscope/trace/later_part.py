"""The part of a trace from some moment on, with what was still running then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.trace.schema import TABLES
from opscope.trace.table import Table
from opscope.trace.trace import Trace

Values = npt.NDArray[np.int64]

_ELSEWHERE = ("events", "metadata", "ledger")


@dataclass(frozen=True)
class Part:
    """Part of a trace.

    Attributes:
        trace: that part; what began before it begins with it.
        rows: of each of its events the row in the whole trace. Shape (events,).
    """

    trace: Trace
    rows: Values


def part_from(trace: Trace, begin_ns: int) -> Part:
    """All that had not ended at ``begin_ns``, Unix nanoseconds."""
    events = trace.events
    start = events["start_ns"].astype(np.int64)
    end = start + events["duration_ns"]
    rows = np.flatnonzero((end > begin_ns) | (start >= begin_ns))
    new = np.full(len(start) + 1, -1, dtype=np.int64)
    new[rows] = np.arange(len(rows))
    clipped = np.maximum(start[rows], begin_ns)
    tables: dict[str, Any] = {
        "events": events.take(rows).replaced(
            {
                "parent": new[events["parent"][rows]].astype(np.int32),
                "start_ns": clipped,
                "duration_ns": end[rows] - clipped,
            }
        )
    }
    for name in TABLES:
        if name not in _ELSEWHERE:
            tables[name] = _part_of(trace.table(name), new, begin_ns)
    tables["ledger"] = trace.table("ledger")
    return Part(Trace(tables, trace.names, trace.metadata), rows.astype(np.int64))


def _part_of(table: Table, new: Values, begin_ns: int) -> Table:
    """Rows about events that are left, and rows about later moments."""
    keep = np.ones(len(table), dtype=np.bool_)
    columns = [column for column in table.schema.columns if column.refers == "events"]
    for column in columns:
        if column.default is None or column.default != -1:
            keep &= new[table[column.name]] >= 0
    for moment in ("time_ns", "start_ns"):
        if table.schema.name != "parameters" and any(
            column.name == moment for column in table.schema.columns
        ):
            keep &= table[moment] >= begin_ns
    rows = np.flatnonzero(keep)
    changed = {c.name: new[table[c.name][rows]].astype(np.int32) for c in columns}
    return table.take(rows).replaced(changed) if len(table) else table
