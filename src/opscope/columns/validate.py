"""Checks that tables read from disk match the schema, so that other code need not check.

``columns.column`` declares limits of values; this module checks each limit over whole columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.base.reused_memory import row_blocks
from opscope.columns.column import Column
from opscope.columns.metadata_kinds import metadata_problem
from opscope.columns.names import Names
from opscope.columns.schema import TABLES
from opscope.columns.shapes import too_large
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.errors import TraceFormatError

Rows = Mapping[str, int]
Values = npt.NDArray[Any]

_MAX_UNRECORDED = 255
"""Maximum difference between an argument's position and its event's number of recorded arguments;
some arguments are not recorded."""


def check_tables(
    tables: Mapping[str, Table], names: Names, source: str, checked: Collection[str]
) -> None:
    """Check the tables ``checked``, and the metadata; ``tables`` has all, for references.

    Every value is valid for its column, parents precede children, and events are in order. Other
    code indexes with these columns and follows parents until -1, so a damaged file would cause an
    IndexError elsewhere, or an endless loop.

    Raises:
        TraceFormatError: names the first invalid column.
    """
    rows = {"names": len(names), **{name: len(table) for name, table in tables.items()}}
    for name in checked:
        table = tables[name]
        for column in table.given if len(table) else ():
            for check in _CHECKS:
                if problem := check(table, table.schema.column(column), rows):
                    raise damaged(source, f"{name}.{column} {problem}")
    if not {"tensors", "scalars"}.isdisjoint(checked) and (problem := _positions(tables)):
        raise damaged(source, problem)
    if problem := _metadata(tables):
        raise damaged(source, problem)


def checked_trace(trace: TraceData, source: str) -> TraceData:
    """``trace`` itself, after all checks of :func:`check_tables`."""
    check_tables({name: trace.table(name) for name in TABLES}, trace.names, source, TABLES)
    return trace


def damaged(source: str, problem: str) -> TraceFormatError:
    """Error for tables that contradict the schema or one another."""
    return TraceFormatError(
        f"{source} is inconsistent: {problem}. The files are damaged or another program changed "
        "them: copy the trace again or record again."
    )


def _reference(table: Table, column: Column, rows: Rows) -> str:
    """Values are rows of the referred table, or -1 if that is the default."""
    if not column.refers:
        return ""
    values = _distinct(table[column.name])
    # A missing column has 0 in all rows, so a thread may be 0 without a table of threads.
    count = rows.get(column.refers, 0) or int(column.refers == "threads")
    lowest = -1 if column.default == -1 else 0
    is_valid = values.min() >= lowest and values.max() < count
    return "" if is_valid else f"points outside {column.refers}"


def _range(table: Table, column: Column, rows: Rows) -> str:
    """Values are between the column's minimum and maximum; NaN is invalid."""
    if column.least is None and column.most is None:
        return ""
    values = table.lists(column.name).values if column.is_list else table[column.name]
    values = _distinct(values)
    if not len(values):
        return ""
    low, high = values.min(), values.max()
    if column.least is not None and not low >= column.least:
        return f"has {low}, but the minimum is {column.least}"
    if column.most is not None and not high <= column.most:
        return f"has {high}, but the maximum is {column.most}"
    return ""


def _distinct(values: Values) -> Values:
    """One value of a broadcast column, otherwise all."""
    return values[:1] if values.strides == (0,) else values


def _sum(table: Table, column: Column, rows: Rows) -> str:
    """The sum of absolute values is at most ``most_sum``: views add them up."""
    if column.most_sum is None:
        return ""
    values = table[column.name]
    largest = max(abs(float(values.min())), abs(float(values.max())))
    if largest * len(values) <= column.most_sum:
        return ""
    total = np.abs(values.astype(np.float64)).sum()
    return "" if total <= column.most_sum else f"adds up to {total:.3g}, which is impossible"


def _length(table: Table, column: Column, rows: Rows) -> str:
    """Each row has as many values as the same row of another column, or none."""
    if not column.as_long_as:
        return ""
    lengths = np.diff(table.lists(column.name).offsets)
    required = np.diff(table.lists(column.as_long_as).offsets)
    differing = np.flatnonzero((lengths != 0) & (lengths != required))
    if not len(differing):
        return ""
    row = differing[0]
    return f"has {lengths[row]} values in row {row}, and {column.as_long_as} has {required[row]}"


def _product(table: Table, column: Column, rows: Rows) -> str:
    """The product of sizes, a number of elements, is at most ``most_product``."""
    if column.most_product is None:
        return ""
    impossible = np.flatnonzero(too_large(table.lists(column.name), column.most_product))
    if not len(impossible):
        return ""
    return f"has an impossible number of elements in row {impossible[0]}"


def _order(table: Table, column: Column, rows: Rows) -> str:
    """Parents precede children, and events are in order of start."""
    if table.schema.name != "events" or column.name not in ("parent", "start_ns"):
        return ""
    values = table[column.name]
    if column.name == "parent":
        is_later = any(
            (values[rows] >= np.arange(rows.start, rows.stop, dtype=values.dtype)).any()
            for rows in row_blocks(len(values))
        )
        return "points to a later event" if is_later else ""
    return "is not in order" if (values[1:] < values[:-1]).any() else ""


_CHECKS: tuple[Callable[[Table, Column, Rows], str], ...] = (
    _reference,
    _range,
    _sum,
    _length,
    _product,
    _order,
)


def _positions(tables: Mapping[str, Table]) -> str:
    """Positions are close together, because views allocate room for each position of an event."""
    checked = [tables[name] for name in ("tensors", "scalars") if name in tables]
    distant = [np.flatnonzero(table["argument"] > _MAX_UNRECORDED) for table in checked]
    if not any(map(len, distant)):
        return ""
    arguments = np.bincount(np.concatenate([table["event"] for table in checked]))
    for table, rows in zip(checked, distant, strict=True):
        limit = arguments[table["event"][rows]] + _MAX_UNRECORDED
        if (table["argument"][rows] > limit).any():
            return f"{table.schema.name}.argument has a position beyond the arguments of its event"
    return ""


def _metadata(tables: Mapping[str, Table]) -> str:
    table = tables.get("metadata")
    if table is None or not len(table):
        return ""
    if len(set(table["key"])) < len(table):
        return "metadata has a key twice"
    for key, text in zip(table["key"], table["value"], strict=True):
        try:
            problem = metadata_problem(str(key), json.loads(text))
        except (ValueError, RecursionError):
            problem = "is not JSON"
        if problem:
            return f"metadata {str(key)[:80]!r} {problem}"
    return ""
