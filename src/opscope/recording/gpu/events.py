"""Device activity as tables of a recording.

Calls of the device's runtime become events of the calling thread, inside the span around them. Work
is linked to its call by correlation id; recording adds nothing around operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.columns.codes import EventKind, GpuKind, RecordScope, Role, RuntimeApi
from opscope.columns.concat import joined
from opscope.columns.names import Names
from opscope.columns.nesting import enclosing
from opscope.columns.row_groups import group_rows, rows_among
from opscope.columns.schema import TABLES
from opscope.columns.table import Table
from opscope.recording.decoded import Decoded, Devices

_KEYS = ("annotation", "device_type", "device_index", "context", "stream")


def annotation_spans(events: Table, gpu: Table) -> Table:
    """``gpu`` with a row per annotation and stream added, in order of start."""
    spans = _spans(events, gpu)
    if not len(spans):
        return gpu
    both = joined([gpu, spans], "gpu")
    # An annotation begins with its first work and precedes it.
    is_work = np.arange(len(both)) < len(gpu)
    return both.take(np.lexsort((is_work, both["start_ns"])))


def _spans(events: Table, gpu: Table) -> Table:
    columns = _inside_annotations(events, gpu)
    spans = group_rows(*(columns[name] for name in _KEYS))
    start = np.full(len(spans), np.iinfo(np.int64).max, dtype=np.int64)
    end = np.zeros(len(spans), dtype=np.int64)
    np.minimum.at(start, spans.group, columns["start_ns"])
    np.maximum.at(end, spans.group, columns["end_ns"])
    columns = {
        "kind": np.full(len(spans), GpuKind.ANNOTATION, dtype=np.uint8),
        "name": events["name"][spans.columns[0]],
        "start_ns": start,
        "duration_ns": end - start,
        **dict(zip(_KEYS[1:], spans.columns[1:], strict=True)),
    }
    return Table(gpu.schema, columns)


def _inside_annotations(events: Table, gpu: Table) -> dict[str, npt.NDArray[np.int64]]:
    """One row per activity and annotation around its launch, as columns."""
    rows = np.flatnonzero((gpu["launch"] >= 0) & (gpu["kind"] <= GpuKind.SET))
    parent, kind = events["parent"], events["kind"]
    event = gpu["launch"][rows]
    parts: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = []
    while len(rows):
        found = kind[event] == EventKind.ANNOTATION
        parts.append((rows[found], event[found]))
        event = parent[event]
        rows, event = rows[event >= 0], event[event >= 0]
    empty = np.zeros(0, dtype=np.int64)
    work = np.concatenate([empty, *(part[0] for part in parts)])
    columns = {name: gpu[name][work].astype(np.int64) for name in ("start_ns", *_KEYS[1:])}
    columns["annotation"] = np.concatenate([empty, *(part[1] for part in parts)])
    columns["end_ns"] = columns["start_ns"] + gpu["duration_ns"][work]
    return columns


_FIELDS = ("operator", "module", "shapes", "stack")
_captured: dict[int, tuple[str, ...]] = {}
"""Texts of ``_FIELDS`` by node, for every capture in any recording.

A replay of a CUDA graph launches hundreds of kernels with one call and no operator around any of
them. Everything about a kernel is known when its node is captured, in this recording or an earlier
one.
"""

_KEPT = 1_000_000


def graph_nodes(
    decoded: Decoded, node: npt.NDArray[np.int64], event: npt.NDArray[np.int32]
) -> tuple[Table, Names]:
    """The ``gpu_graph_nodes`` table, and the names with its additional texts.

    Args:
        decoded: the recording's tables, with their final numbering of events.
        node: CUPTI's numbers of the nodes. Shape (nodes,).
        event: innermost event at each capture; -1 if an earlier recording captured it. Shape
            (nodes,).
    """
    first_name = len(decoded.names)
    _remember(decoded, node, event)
    rows: dict[str, int] = {}
    columns: dict[str, list[int]] = {name: [] for name in _FIELDS}
    for number in node.tolist():
        for field, text in zip(_FIELDS, _captured.get(number, ("",) * len(_FIELDS)), strict=True):
            row = first_name + rows.setdefault(text, len(rows)) if text else -1
            columns[field].append(row)
    table = Table(TABLES["gpu_graph_nodes"], {"node": node, "event": event, **columns})
    return table, decoded.names.followed_by(Names.from_strings(rows))


def _remember(decoded: Decoded, node: npt.NDArray[np.int64], event: npt.NDArray[np.int32]) -> None:
    captured = np.flatnonzero(event >= 0)
    if not len(captured):
        return
    describe = _Describer(decoded)
    texts: dict[int, tuple[str, ...]] = {}
    for row in captured.tolist():
        at = int(event[row])
        if at not in texts:
            texts[at] = describe(at)
        if len(_captured) < _KEPT:
            _captured[int(node[row])] = texts[at]


class _Describer:
    """Describes an event and its context by the four texts of ``_FIELDS``."""

    def __init__(self, decoded: Decoded) -> None:
        self._names = decoded.names
        self._events = decoded.events
        tensors = decoded.tables["tensors"]
        self._rows = np.flatnonzero(tensors["role"] == Role.INPUT)
        self._of_event = tensors["event"][self._rows]
        self._sizes = tensors.lists("sizes")

    def __call__(self, event: int) -> tuple[str, ...]:
        events, names = self._events, self._names
        operator, operator_row, annotation = "", -1, ""
        modules: list[str] = []
        stack: list[str] = []
        row = event
        while row >= 0:
            kind, name = int(events["kind"][row]), names[int(events["name"][row])]
            if kind == EventKind.OPERATOR and operator_row < 0:
                operator, operator_row = name, row
            elif kind == EventKind.ANNOTATION and not annotation:
                annotation = name
            elif kind == EventKind.MODULE_CALL:
                modules.append(name.removeprefix("nn.Module: "))
            elif kind == EventKind.PYTHON_CALL:
                stack.append(name)
            row = int(events["parent"][row])
        shapes = self._shapes(operator_row)
        return operator or annotation, "/".join(reversed(modules)), shapes, "\n".join(stack)

    def _shapes(self, event: int) -> str:
        first, last = np.searchsorted(self._of_event, [event, event + 1])
        rows = self._rows[first:last].tolist()
        return str([self._sizes[row] for row in rows]) if rows else ""


Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


def with_devices(decoded: Decoded) -> Decoded:
    """Add device activity as rows of ``events`` and the device tables, if it was recorded."""
    devices = decoded.devices
    if devices is None:
        return decoded
    first_name = len(decoded.names)
    decoded = replace(decoded, names=decoded.names.followed_by(devices.names))
    decoded = decoded.with_tables(threads=_with_threads(decoded.tables["threads"], devices))
    calls = devices.tables["runtime_calls"]
    calls = calls.replaced({"name": calls["name"] + np.int32(first_name)})
    decoded, event = _with_calls(decoded, calls)
    runtime_calls = _completed(calls, event=event)
    nodes, names = graph_nodes(decoded, *_captures(decoded, devices.tables["gpu_graph_nodes"]))
    gpu = _work_table(devices.tables["gpu"], first_name, event, nodes)
    overheads = devices.tables["gpu_overheads"]
    return replace(decoded, names=names).with_tables(
        gpu=annotation_spans(decoded.events, gpu),
        runtime_calls=runtime_calls,
        gpu_graph_nodes=nodes,
        gpu_memory=_memory_table(devices.tables["gpu_memory"], runtime_calls),
        gpu_overheads=_completed(overheads, thread=_thread_rows(decoded, overheads)),
    )


def _completed(delivered: Table, **filled: Any) -> Table:
    schema = TABLES[delivered.schema.name]
    kept = {column.name for column in schema.columns} & delivered.given.keys()
    return Table(schema, {**{name: delivered.given[name] for name in kept}, **filled})


def _with_threads(threads: Table, devices: Devices) -> Table:
    """Add rows for threads that recorded nothing else."""
    known = set(threads["system_thread_id"].tolist())
    found: dict[int, None] = {}
    for table in ("runtime_calls", "gpu_graph_nodes", "gpu_overheads"):
        found |= dict.fromkeys(np.unique(devices.tables[table]["system_thread_id"]).tolist())
    added = np.array([thread for thread in found if thread not in known], dtype=np.int64)
    return joined([threads, Table(threads.schema, {"system_thread_id": added})], "threads")


def _thread_rows(decoded: Decoded, table: Table) -> Int32:
    threads = decoded.tables["threads"]["system_thread_id"]
    rows = {thread: row for row, thread in enumerate(threads.tolist())}
    distinct, inverse = np.unique(table["system_thread_id"], return_inverse=True)
    known = [rows[thread] for thread in distinct.tolist()]
    return np.array(known, dtype=np.int32)[inverse.reshape(-1)]


def _with_calls(decoded: Decoded, calls: Table) -> tuple[Decoded, Int32]:
    """Add runtime calls as events; also returns their rows. Renumbers all references to events."""
    events, start = decoded.events, calls["start_ns"]
    thread = _thread_rows(decoded, calls)
    before = np.searchsorted(events["start_ns"], start, side="right")
    rows = (before + np.arange(len(start))).astype(np.int32)
    shifted = np.searchsorted(start, events["start_ns"], side="left")
    new_row = (np.arange(len(shifted)) + shifted).astype(np.int32)
    renumbered = np.append(new_row, np.int32(-1))  # the last entry is for -1
    tables = {name: _renumbered(table, renumbered) for name, table in decoded.tables.items()}
    inside = _runtime_call_around(calls, thread)
    parent = renumbered[_innermost(events, thread, start)]
    filled = {
        "thread": thread,
        "parent": np.where(inside >= 0, rows[inside], parent),
        "name": calls["name"],
        "kind": np.uint8(EventKind.RUNTIME_CALL),
        "scope": np.uint8(RecordScope.FUNCTION),
        "start_ns": start,
        "duration_ns": calls["duration_ns"],
    }
    if events.has("record_function_id"):
        given = events["record_function_id"]
        filled["record_function_id"] = given.max(initial=-1) + 1 + np.arange(len(rows))
    tables["events"] = _interleaved(tables["events"], new_row, filled, rows)
    return replace(decoded, tables=tables), rows


def _renumbered(table: Table, new_row: Int32) -> Table:
    """The table with references to new rows of ``events``; the last of ``new_row`` is for -1."""
    refer = (column.name for column in table.schema.columns if column.refers == "events")
    return table.replaced({name: new_row[table[name]] for name in refer if table.has(name)})


def _interleaved(table: Table, new_row: Int32, filled: Mapping[str, Any], rows: Int32) -> Table:
    """Insert new rows at ``rows``, with old ones at ``new_row``; missing values are defaults."""
    columns = {}
    for name, values in table.given.items():
        columns[name] = np.empty(len(new_row) + len(rows), dtype=values.dtype)
        columns[name][new_row] = values
        columns[name][rows] = filled.get(name, table.schema.column(name).default)
    return Table(table.schema, columns)


def _runtime_call_around(calls: Table, thread: Int32) -> Int64:
    """Runtime call around each driver call; -1 without one and for other calls."""
    runtime = np.flatnonzero(calls["api"] == RuntimeApi.RUNTIME)
    driver = np.flatnonzero(calls["api"] == RuntimeApi.DRIVER)
    result = np.full(len(thread), -1, dtype=np.int64)
    if len(runtime) and len(driver):
        start = calls["start_ns"][runtime]
        spans = (
            thread[runtime].astype(np.int64),
            start,
            start + calls["duration_ns"][runtime],
            np.full(len(runtime), -1, dtype=np.int32),
        )
        found = enclosing(spans, thread[driver].astype(np.int64), calls["start_ns"][driver])
        result[driver] = np.where(found >= 0, runtime[found], -1)
    return result


def _innermost(events: Table, thread: Int32, time: Int64) -> Int32:
    end = events["start_ns"] + events["duration_ns"]
    spans = (events["thread"].astype(np.int64), events["start_ns"], end, events["parent"])
    return enclosing(spans, thread.astype(np.int64), time)


def _captures(decoded: Decoded, nodes: Table) -> tuple[Int64, Int32]:
    """The nodes, and the innermost event at each capture; -1 without one or if captured before."""
    at = _innermost(decoded.events, _thread_rows(decoded, nodes), nodes["time_ns"])
    return nodes["node"], np.where(nodes["time_ns"] > 0, at, -1).astype(np.int32)


def _work_table(work: Table, first_name: int, call_rows: Int32, nodes: Table) -> Table:
    call = work["call"]
    rows = np.append(call_rows, np.int32(-1))
    return _completed(
        work,
        name=work["name"] + np.int32(first_name),
        launch=rows[np.where(call >= 0, call, -1)],
        capture=_looked_up(work["graph_node"], nodes["node"], nodes["event"]),
    )


def _memory_table(memory: Table, calls: Table) -> Table:
    memory = memory.take(np.argsort(memory["time_ns"], kind="stable"))
    event = _looked_up(memory["correlation_id"], calls["correlation_id"], calls["event"])
    return _completed(memory, event=event)


def _looked_up(wanted: Int64, keys: Int64, values: Int32) -> Int32:
    order = np.argsort(keys, kind="stable")
    return np.append(values[order], np.int32(-1))[rows_among(keys[order], wanted)]
