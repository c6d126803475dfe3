"""A large trace from a small one: its rows again and again, each time later."""

from __future__ import annotations

from typing import Any

import numpy as np

from opscope.api.trace import Trace
from opscope.columns.column import Column
from opscope.columns.schema import TABLES
from opscope.columns.table import ListColumn, Table

_REPEATED = ("events", "allocations", "tensors", "scalars", "python_calls", "gpu")
"""Tables with rows per event or time; the others hold what those refer to."""


def repeat_trace(trace: Trace, times: int, period_ns: int) -> Trace:
    """``trace`` ``times`` over, copy i ``i * period_ns`` later; one copy must be over by then."""
    tables: dict[str, Any] = {name: trace.table(name) for name in TABLES}
    sizes = {name: len(trace.table(name)) for name in _REPEATED}
    for name in _REPEATED:
        if sizes[name]:
            tables[name] = _repeated(trace.table(name), times, period_ns, sizes)
    return Trace(tables, trace.names)


def _repeated(table: Table, times: int, period_ns: int, sizes: dict[str, int]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for column in table.schema.columns:
        if column.dtype.startswith("list"):
            columns[column.name] = _repeated_lists(table.lists(column.name), times)
        else:
            shift = _shift(column, period_ns, sizes)
            columns[column.name] = _repeated_column(table[column.name], times, shift)
    return columns


def _shift(column: Column, period_ns: int, sizes: dict[str, int]) -> int:
    if column.name in ("start_ns", "time_ns"):
        return period_ns
    return sizes.get(column.refers, 0)


def _repeated_column(values: np.ndarray, times: int, shift: int) -> np.ndarray:
    repeated = np.tile(values, times)
    if shift:
        moved = np.repeat(np.arange(times) * shift, len(values)).astype(repeated.dtype)
        repeated = np.where(repeated < 0, repeated, repeated + moved)
    return repeated


def _repeated_lists(lists: ListColumn, times: int) -> ListColumn:
    lengths = np.tile(np.diff(lists.offsets), times)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return ListColumn(offsets, np.tile(lists.values, times))
