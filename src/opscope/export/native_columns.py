"""Columns of a trace for native writers: flat columns and row ranges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from opscope.base.progress import report_progress
from opscope.columns.schema import Role, ScalarType
from opscope.columns.table import ListColumn, Table
from opscope.columns.trace_data import TraceData

Columns = dict[str, npt.NDArray[Any]]
Rows = npt.NDArray[np.int64]


def argument_columns(trace: TraceData) -> Columns:
    """``tensors.*`` and ``scalars.*``: inputs only, grouped by event."""
    count = len(trace.events)
    columns: Columns = {}
    for name, flat, lists in (
        ("tensors", ("argument", "element", "role", "dtype"), ("sizes", "strides")),
        ("scalars", ("argument", "role", "type", "value"), ()),
    ):
        table = trace.table(name)
        rows = _inputs(table, count)
        if not len(rows):
            continue
        is_full = len(rows) == len(table) and bool(np.all(rows[1:] > rows[:-1]))
        columns[f"{name}.rows"] = row_ranges(table["event"][rows], count)
        for column in flat:
            values = table[column]
            if column == "value" and "concrete_inputs" in trace.metadata.get("left_out", ()):
                values = np.where(table["type"] >= ScalarType.INT_LIST, np.int32(-1), values)
            columns[f"{name}.{column}"] = values if is_full else values[rows]
        for column in lists:
            ragged = table.lists(column)
            columns |= list_columns(f"{name}.{column}", ragged if is_full else ragged.take(rows))
    return columns


def _inputs(table: Table, event_count: int) -> Rows:
    event = table["event"]
    rows = np.flatnonzero((table["role"] == Role.INPUT) & within(event, event_count))
    event = event[rows]
    return rows if np.all(event[1:] >= event[:-1]) else rows[np.argsort(event, kind="stable")]


def name_columns(trace: TraceData) -> Columns:
    """``names.*``: the string table unchanged."""
    return {
        "names.offsets": np.asarray(trace.names.offsets, dtype=np.int64),
        "names.bytes": np.frombuffer(trace.names.blob, dtype=np.uint8),
    }


def within(rows: npt.NDArray[Any], count: int) -> npt.NDArray[np.bool_]:
    """Which of ``rows`` are valid rows of a table with ``count`` rows."""
    valid: npt.NDArray[np.bool_] = (rows >= 0) & (rows < count)
    return valid


def flat(prefix: str, table: Table, names: tuple[str, ...]) -> Columns:
    """Columns of ``table`` under the writer's names."""
    return {f"{prefix}.{name}": table[name] for name in names}


def list_columns(name: str, column: ListColumn) -> Columns:
    """A ragged column as offsets and values."""
    return {f"{name}.offsets": column.offsets, f"{name}.values": column.values}


def row_ranges(parents: npt.NDArray[Any], count: int) -> Rows:
    """``ranges`` such that sorted rows ``ranges[i]:ranges[i + 1]`` belong to parent i."""
    ranges = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(parents, minlength=count), out=ranges[1:])
    return ranges


class BlockWriter(Protocol):
    """A writer of ``_native``."""

    @property
    def rows_written(self) -> int:
        """Number of rows in the blocks so far."""

    def next_block(self, size: int) -> npt.NDArray[np.uint8] | None:
        """The next block, a little longer than ``size`` bytes; None after the last."""


def blocks_of(writer: BlockWriter, size: int, rows: int) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield the blocks of ``writer``, which has ``rows`` rows, and report progress."""
    while (block := writer.next_block(size)) is not None:
        yield block
        report_progress(writer.rows_written, rows)
