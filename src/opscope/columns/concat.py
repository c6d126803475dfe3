"""Concatenation of traces: cycles of one profiler, windows of one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opscope.columns.column import Column
from opscope.columns.names import Names
from opscope.columns.schema import TABLES
from opscope.columns.table import ListColumn, Table
from opscope.columns.trace_data import TraceData


def concat_traces(traces: Sequence[TraceData]) -> TraceData:
    """One trace with all rows of ``traces`` in order.

    References between rows (parents, names, threads) are renumbered. Threads of different traces
    stay separate even if they are the same system thread. Metadata of the last trace wins, except
    ``start_ns``, which is that of the first.
    """
    if not traces:
        raise ValueError("nothing to concatenate")
    if len(traces) == 1:
        return traces[0]
    names, name_maps = _merge_names(traces)
    tables: dict[str, dict[str, Any]] = {}
    for name, schema in TABLES.items():
        if name == "metadata":
            continue
        tables[name] = {
            column.name: _concat_column(traces, name, column, name_maps)
            for column in schema.columns
        }
    metadata: dict[str, Any] = {}
    for trace in traces:
        metadata.update(trace.metadata)
    if "start_ns" in traces[0].metadata:
        metadata["start_ns"] = traces[0].metadata["start_ns"]
    return TraceData(tables, names, metadata)


def _merge_names(traces: Sequence[TraceData]) -> tuple[Names, list[np.ndarray[Any, Any]]]:
    ids: dict[str, int] = {}
    maps = []
    for trace in traces:
        mapped = [ids.setdefault(text, len(ids)) for text in trace.names]
        maps.append(np.array([*mapped, -1], dtype=np.int32))  # the last entry maps index -1
    return Names.from_strings(ids), maps


def _concat_column(
    traces: Sequence[TraceData], table: str, column: Column, name_maps: list[np.ndarray[Any, Any]]
) -> Any:
    if column.is_list:
        return concat_lists([trace.table(table).lists(column.name) for trace in traces])
    parts = []
    offset = 0
    for trace, name_map in zip(traces, name_maps, strict=True):
        part = trace.table(table)[column.name]
        if column.refers == "names":
            part = name_map[part]
        elif column.refers:
            part = np.where(part < 0, part, part + offset)
            offset += len(trace.table(column.refers))
        parts.append(part)
    return np.concatenate(parts)


def concat_lists(parts: Sequence[ListColumn]) -> ListColumn:
    """Rows of all parts, in order."""
    offsets = [np.zeros(1, dtype=np.int64)]
    total = 0
    for part in parts:
        offsets.append(part.offsets[1:] + total)
        total += int(part.offsets[-1])
    return ListColumn(np.concatenate(offsets), np.concatenate([part.values for part in parts]))


def joined(parts: Sequence[Table], name: str) -> Table:
    """Rows of all parts of a table, in order."""
    parts = [part for part in parts if len(part)]
    if len(parts) < 2:
        return parts[0] if parts else Table(TABLES[name], {})
    columns: dict[str, Any] = {}
    for column in TABLES[name].columns:
        if column.is_list:
            columns[column.name] = concat_lists([part.lists(column.name) for part in parts])
        else:
            columns[column.name] = np.concatenate([part[column.name] for part in parts])
    return Table(TABLES[name], columns)


def in_order_of_start(joined: TraceData) -> dict[str, Table]:
    """Tables of a concatenation of simultaneous traces, with events in order of start."""
    order = np.argsort(joined.events["start_ns"], kind="stable")
    row_of = np.empty(len(order) + 1, dtype=np.int32)
    row_of[order] = np.arange(len(order), dtype=np.int32)
    row_of[-1] = -1  # for references to no event
    tables = {}
    for name, schema in TABLES.items():
        table = joined.table(name)
        if name in ("ledger", "metadata") or not len(table):
            continue
        if name == "events":
            table = table.take(order)
        references = [column.name for column in schema.columns if column.refers == "events"]
        table = table.replaced({column: row_of[table[column]] for column in references})
        # the other tables are in order of time
        if "event" in references and "time_ns" not in table.given:
            table = table.take(np.argsort(table["event"], kind="stable"))
        tables[name] = table
    return tables
