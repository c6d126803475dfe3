"""What one of those who share a recording asked for."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from opscope.columns.names import Names
from opscope.columns.schema import TABLES, Role
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.recording.sources import RecordingOptions

_COLLECTIVE = "record_param_comms"


def narrowed(trace: TraceData, recorded: RecordingOptions, asked: RecordingOptions) -> TraceData:
    """``trace`` with the arguments and overload names only that were asked for.

    The events stay, and so do their ids: only options that add no events may differ. What torch
    says of collectives stays too, as without sharing.
    """
    if recorded == asked:
        return trace
    tables: dict[str, Any] = {name: trace.table(name) for name in TABLES if name != "metadata"}
    events = trace.events
    if recorded.overloads and not asked.overloads:
        tables["events"] = _without(events, "overload")
    if recorded.shapes and not asked.shapes:
        tables["tensors"] = {}
        tables["scalars"] = _of_collectives(trace.table("scalars"), events, trace.names)
    return TraceData(tables, trace.names, {**trace.metadata, "options": asdict(asked)})


def _without(table: Table, left_out: str) -> dict[str, Any]:
    return {c.name: table[c.name] for c in table.schema.columns if c.name != left_out}


def _of_collectives(scalars: Table, events: Table, names: Names) -> dict[str, Any]:
    name = names.find(_COLLECTIVE)
    rows = np.flatnonzero(scalars["role"] == Role.KEYWORD) if name >= 0 else np.zeros(0, np.int64)
    rows = rows[events["name"][scalars["event"][rows]] == name]
    return {column.name: scalars[column.name][rows] for column in scalars.schema.columns}
