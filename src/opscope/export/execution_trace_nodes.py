"""Columns for the native execution trace writer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from opscope import _native
from opscope.analysis.collectives.calls import find_collectives
from opscope.columns.dtypes import CPP_NAMES, ITEM_SIZES
from opscope.columns.labels import DEVICES
from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData
from opscope.export.native_columns import Columns, blocks_of, name_columns, row_ranges
from opscope.export.output_file import Block, to_json
from opscope.export.schema_text import schema_size, schemas_of_events
from opscope.export.value_rows import nested_values, value_columns
from opscope.timeline.tree.arguments import keyword_values
from opscope.timeline.tree.event_tree import minus_children, nearest_ancestor
from opscope.timeline.window import window_of

BLOCK_BYTES = 4 << 20


def json_inside(text: str) -> str:
    """``text`` as the inside of a JSON string."""
    return to_json(text)[1:-1]


_ENGINE = "autograd::engine::evaluate_function: "
_EVENTS = (
    "thread", "parent", "name", "launch_thread", "kind", "scope", "start_ns", "duration_ns",
    "record_function_id",
)  # fmt: skip


class NodeWriter:
    """Writes traces of one process one after another; ids and addresses continue.

    Attributes:
        base_ns: Unix time that ``ts`` counts from; 0 before the first trace.
    """

    def __init__(self, *, with_times: bool = True) -> None:
        self._writer = _native.ExecutionTraceWriter()
        self._with_times = with_times
        self.base_ns = 0

    def blocks(self, trace: TraceData) -> Iterator[Block]:
        """The nodes of ``trace`` in blocks of a few megabytes, each node after a comma."""
        self.base_ns = self.base_ns or base_ns_of(trace)
        columns, settings = node_columns(trace)
        extras, fragments = _collective_columns(trace)
        self._writer.begin(
            {**columns, **extras},
            **settings,
            fragments=fragments,
            base_ns=self.base_ns,
            has_times=self._with_times,
        )
        yield from blocks_of(self._writer, BLOCK_BYTES, len(trace.events))


def node_columns(trace: TraceData) -> tuple[Columns, dict[str, Any]]:
    """Columns of the nodes, and further arguments of ``begin``."""
    schema, schemas = schemas_of_events(trace)
    kernel, kernels = _kernels(trace)
    columns = {
        **{f"events.{name}": trace.events[name] for name in _EVENTS},
        **_links(trace),
        "events.self_ns": _self_ns(trace),
        "events.schema": schema,
        "events.kernel": kernel,
        "threads.number": _thread_numbers(trace),
        **name_columns(trace),
        **value_columns(trace),
    }
    settings = {
        "schemas": [json_inside(text) for text in schemas],
        "schema_sizes": [schema_size(text) for text in schemas],
        "kernels": kernels,
        "nested": nested_values(trace),
        "dtype_names": [CPP_NAMES.get(code, "") for code in range(max(CPP_NAMES) + 1)],
        "itemsizes": [ITEM_SIZES.get(code, 0) for code in range(max(CPP_NAMES) + 1)],
        "device_names": [DEVICES.get(code, "") for code in range(max(DEVICES) + 1)],
    }
    return columns, settings


def base_ns_of(trace: TraceData) -> int:
    """Time 0 of the file in Unix nanoseconds, as in a Chrome trace."""
    return max(window_of(trace, trace.metadata).base_ns, 0)


def _links(trace: TraceData) -> Columns:
    """Sequence numbers and forward threads as torch records them.

    A trace has the numbers of a backward node also on the engine's span around it, as in
    torch.profiler; an execution trace has them on the node only.
    """
    events, names = trace.events, trace.names
    is_used = np.zeros(len(names) + 1, dtype=np.bool_)
    is_used[events["name"]] = True
    engine = [n for n in np.flatnonzero(is_used[:-1]).tolist() if names[n].startswith(_ENGINE)]
    is_engine = np.isin(events["name"], engine)
    return {
        "events.sequence_number": np.where(is_engine, -1, events["sequence_number"]),
        "events.forward_thread": np.where(is_engine, 0, events["forward_thread"]).astype(np.int32),
    }


def _self_ns(trace: TraceData) -> Any:
    """Duration of every node without the nodes inside it."""
    events = trace.events
    is_node = events["kind"] <= EventKind.ANNOTATION
    counted = is_node & ~events["is_async"]
    parent = nearest_ancestor(events["parent"], counted)
    return np.maximum(minus_children(parent, events["duration_ns"], counted & (parent >= 0)), 0)


def _thread_numbers(trace: TraceData) -> Any:
    threads = trace.table("threads")
    torch_id = threads["torch_thread_id"]
    return np.where(torch_id != 0, torch_id, threads["system_thread_id"]).astype(np.int64)


def _kernels(trace: TraceData) -> tuple[Any, list[tuple[str, str, str]]]:
    """The generated kernel that each event launched, with its attributes."""
    kernel_row = np.full(len(trace.events), -1, dtype=np.int32)
    texts: dict[tuple[str, str, str], int] = {}
    keywords = keyword_values(trace, ("kernel_backend", "kernel_file", "stream"))
    for event, values in keywords.items():
        backend = str(values.get("kernel_backend", ""))
        if not backend:
            continue
        file, stream = "", ""
        if backend == "triton":
            file = os.path.basename(str(values.get("kernel_file", "")))
            stream = str(values["stream"]) if isinstance(values.get("stream"), int) else ""
        text = (json_inside(backend), json_inside(file), stream)
        kernel_row[event] = texts.setdefault(text, len(texts))
    return kernel_row, list(texts)


def _collective_columns(trace: TraceData) -> tuple[Columns, list[str]]:
    collectives = find_collectives(trace)
    texts: dict[str, int] = {}
    number = [texts.setdefault(_attributes(c.attributes), len(texts)) for c in collectives]
    events = np.array([c.event for c in collectives], dtype=np.int64)
    columns: Columns = {
        "extras.rows": row_ranges(events, len(trace.events)),
        "extras.fragment": np.array(number, dtype=np.int32),
    }
    return columns, list(texts)


def _attributes(values: dict[str, Any]) -> str:
    return "".join(
        f',{{"name":"{name}","type":"{_type_of(name)}","value":{to_json(value)}}}'
        for name, value in values.items()
    )


def _type_of(name: str) -> str:
    numbers = ("in_msg_nelems", "out_msg_nelems", "global_rank_start", "global_rank_stride")
    return "uint64" if name in (*numbers, "pg_size") else "string"
