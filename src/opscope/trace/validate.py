"""Checks that a table set read from disk can be used without looking at every index twice."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from opscope.errors import TraceFormatError
from opscope.trace.names import Names
from opscope.trace.table import Table


def check_references(tables: Mapping[str, Table], names: Names, source: str) -> None:
    """Every index points into its table, parents come before children, events are in order.

    Code downstream indexes with these columns and climbs parents until -1, so a damaged file
    would otherwise end in an IndexError far away, or in an endless loop.

    Raises:
        TraceFormatError: naming the first column that is wrong.
    """
    rows = {"names": len(names), **{name: len(table) for name, table in tables.items()}}
    for name, table in tables.items():
        for column in table.schema.columns:
            target = column.refers
            if target and len(table):
                values = table[column.name]
                # A column left out is filled with 0, so 0 may point into an empty table.
                if values.min() < -1 or values.max() >= max(rows.get(target, 0), 1):
                    raise _damaged(source, f"{name}.{column.name} points outside {target}")
    events = tables.get("events")
    if events is not None and len(events):
        parent, start = events["parent"], events["start_ns"]
        if (parent < -1).any() or (parent >= np.arange(len(events))).any():
            raise _damaged(source, "events.parent points to a later event")
        if (start[1:] < start[:-1]).any():
            raise _damaged(source, "events are not in order of start_ns")


def _damaged(source: str, what: str) -> TraceFormatError:
    return TraceFormatError(
        f"{source} is inconsistent: {what}. The files are damaged or were changed by another "
        "program: copy the trace again or record again."
    )
