"""What a device did, put into the tables of a recording.

Calls of the device's runtime become events: on the thread that made them, inside whatever ran there
at the time. Work is linked to its call by correlation id; nothing had to be pushed or popped around
operators while recording.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.recording.gpu_graphs import graph_nodes
from opscope.recording.gpu_spans import annotation_spans
from opscope.trace.names import Names
from opscope.trace.nesting import enclosing
from opscope.trace.schema import TABLES, EventKind, RecordScope
from opscope.trace.table import ListColumn

Int64 = npt.NDArray[np.int64]
Columns = dict[str, Any]


def merge_gpu(decoded: dict[str, Any]) -> None:
    """Turn ``decoded["gpu"]`` into rows of ``events`` and the device tables, in place."""
    gpu = decoded["gpu"]
    first_name = _append_names(decoded, gpu["name_offsets"], gpu["name_text"])
    for table in (gpu["calls"], gpu["work"]):
        table["name"] = table["name"] + np.int32(first_name)
    threads = _thread_rows(decoded["threads"])
    call_rows = _insert_calls(decoded, gpu["calls"], threads)
    calls = gpu["calls"]
    decoded["runtime_calls"] = {
        "event": call_rows,
        **{name: calls[name] for name in ("correlation_id", "api", "function", "result")},
    }
    decoded["gpu"] = _work_table(gpu["work"], call_rows)
    nodes = gpu["nodes"]
    at = _innermost(decoded["events"], threads(nodes["system_thread_id"]), nodes["time_ns"])
    decoded["gpu_graph_nodes"], texts = graph_nodes(decoded, nodes, at)
    _append_texts(decoded, texts)
    _link_captures(decoded)
    decoded["gpu"] = annotation_spans(decoded["events"], decoded["gpu"])
    decoded["gpu_memory"] = _memory_table(gpu["memory"], decoded["runtime_calls"])
    overheads = gpu["overheads"]
    decoded["gpu_overheads"] = {
        "kind": overheads["kind"],
        "start_ns": overheads["start_ns"],
        "duration_ns": overheads["duration_ns"],
        "thread": threads(overheads["system_thread_id"]),
    }
    decoded["gpu_counts"] = gpu["counts"]
    decoded["gpu_source"] = {
        name: gpu[name]
        for name in ("library_path", "library_version", "clock_is_ours", "missing_kinds")
    }


def _append_names(decoded: dict[str, Any], offsets: Int64, text: bytes) -> int:
    """Add names to the string table; returns the row of the first."""
    existing = decoded["name_offsets"]
    decoded["name_offsets"] = np.concatenate([existing, offsets[1:] + existing[-1]])
    decoded["name_text"] = decoded["name_text"] + text
    return len(existing) - 1


def _append_texts(decoded: dict[str, Any], texts: list[str]) -> None:
    names = Names.from_strings(texts)
    _append_names(decoded, np.asarray(names.offsets, dtype=np.int64), bytes(names.blob))


def _thread_rows(threads: Columns) -> Callable[[Int64], npt.NDArray[np.int32]]:
    """Rows of ``threads`` by system thread id; threads that recorded nothing else are added."""
    rows = {int(thread): row for row, thread in enumerate(threads["system_thread_id"].tolist())}

    def look_up(system_thread_ids: Int64) -> npt.NDArray[np.int32]:
        distinct, inverse = np.unique(system_thread_ids, return_inverse=True)
        known = [rows.setdefault(int(thread), len(rows)) for thread in distinct]
        added = np.array(list(rows)[len(threads["system_thread_id"]) :], dtype=np.int64)
        for name, fill in (("system_thread_id", added), ("torch_thread_id", 0), ("name", -1)):
            values = np.broadcast_to(np.asarray(fill, dtype=threads[name].dtype), len(added))
            threads[name] = np.concatenate([threads[name], values])
        return np.array(known, dtype=np.int32)[inverse.reshape(-1)]

    return look_up


def _insert_calls(
    decoded: dict[str, Any], calls: Columns, threads: Callable[[Int64], npt.NDArray[np.int32]]
) -> npt.NDArray[np.int32]:
    """Make calls events; returns their rows. Whatever refers to events is renumbered."""
    events, start = decoded["events"], calls["start_ns"]
    thread = threads(calls["system_thread_id"])
    parent = _innermost(events, thread, start)
    before = np.searchsorted(events["start_ns"], start, side="right")
    rows = (before + np.arange(len(start))).astype(np.int32)
    shifted = np.searchsorted(start, events["start_ns"], side="left")
    new_row = (np.arange(len(shifted)) + shifted).astype(np.int32)
    renumbered = np.append(new_row, np.int32(-1))  # the last serves -1
    for name, schema in TABLES.items():
        for column in schema.columns:
            table = decoded.get(name)
            if column.refers == "events" and isinstance(table, dict) and column.name in table:
                table[column.name] = renumbered[table[column.name]]
    inside = _runtime_call_around(calls, thread)
    filled = {
        "thread": thread,
        "parent": np.where(inside >= 0, rows[inside], renumbered[parent]),
        "name": calls["name"],
        "kind": np.uint8(EventKind.RUNTIME_CALL),
        "scope": np.uint8(RecordScope.FUNCTION),
        "start_ns": start,
        "duration_ns": calls["duration_ns"],
    }
    for name, values in events.items():
        events[name] = _interleave(values, new_row, filled.get(name, _default(name)), rows)
    if "record_function_id" in events and len(rows):
        ids = events["record_function_id"]
        ids[rows] = ids.max() + 1 + np.arange(len(rows))
    return rows


def _runtime_call_around(calls: Columns, thread: npt.NDArray[np.int32]) -> Int64:
    """For calls of the driver, the call of the runtime that made them, or -1."""
    runtime = np.flatnonzero(calls["api"] == 0)
    driver = np.flatnonzero(calls["api"] == 1)
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


def _default(column: str) -> Any:
    schema = TABLES["events"].column(column)
    return np.array(schema.default, dtype=np.dtype(schema.dtype))


def _interleave(
    values: npt.NDArray[Any], new_row: npt.NDArray[np.int32], added: Any, rows: Any
) -> npt.NDArray[Any]:
    result = np.empty(len(new_row) + len(rows), dtype=values.dtype)
    result[new_row] = values
    result[rows] = added
    return result


def _innermost(
    events: Columns, thread: npt.NDArray[np.int32], time: Int64
) -> npt.NDArray[np.int32]:
    end = events["start_ns"] + events["duration_ns"]
    spans = (events["thread"].astype(np.int64), events["start_ns"], end, events["parent"])
    return enclosing(spans, thread.astype(np.int64), time)


def _work_table(work: Columns, call_rows: npt.NDArray[np.int32]) -> Columns:
    launch = work["launch"]
    rows = np.append(call_rows, np.int32(-1))
    table = {
        name: ListColumn(*values) if isinstance(values, tuple) else values
        for name, values in work.items()
    }
    table["launch"] = rows[np.where(launch >= 0, launch, -1)]
    return table


def _link_captures(decoded: dict[str, Any]) -> None:
    """``gpu.capture`` from the nodes' events."""
    nodes, gpu = decoded["gpu_graph_nodes"], decoded["gpu"]
    order = np.argsort(nodes["node"], kind="stable")
    capture = np.full(len(gpu["graph_node"]), -1, dtype=np.int32)
    if len(order):
        sorted_nodes = nodes["node"][order]
        place = np.searchsorted(sorted_nodes, gpu["graph_node"])
        place = np.minimum(place, len(order) - 1)
        known = sorted_nodes[place] == gpu["graph_node"]
        capture[known] = nodes["event"][order][place[known]]
    gpu["capture"] = capture


def _memory_table(memory: Columns, calls: Columns) -> Columns:
    order = np.argsort(memory["time_ns"], kind="stable")
    table = {name: values[order] for name, values in memory.items()}
    by_id = np.argsort(calls["correlation_id"], kind="stable")
    event = np.full(len(order), -1, dtype=np.int32)
    if len(by_id):
        ids = calls["correlation_id"][by_id]
        place = np.minimum(np.searchsorted(ids, table["correlation_id"]), len(ids) - 1)
        known = ids[place] == table["correlation_id"]
        event[known] = calls["event"][by_id][place[known]]
    table["event"] = event
    return table
