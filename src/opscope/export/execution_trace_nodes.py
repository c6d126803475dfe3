"""Columns for the native execution trace writer: nodes, their values and operator schemas."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

import opscope._native as _native
from opscope.analysis.account.helper_threads import is_node
from opscope.analysis.collectives.calls import find_collectives
from opscope.columns.dtypes import CPP_NAMES, ITEM_SIZES
from opscope.columns.labels import DEVICES
from opscope.columns.overloads import registered_overloads, registered_schema
from opscope.columns.schema import EventKind, RecordScope, Role, ScalarType
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.export.native_columns import Columns, blocks_of, list_columns, name_columns, row_ranges
from opscope.export.output_file import Block, to_json
from opscope.timeline.tree.arguments import keyword_values
from opscope.timeline.tree.event_tree import minus_children, nearest_ancestor
from opscope.timeline.window import window_of

_TENSORS = (
    "argument", "element", "role", "dtype", "unsized_dtype", "device_type", "device_index",
    "layout", "impl", "storage", "storage_impl", "storage_offset", "tensor_id", "allocation_id",
)  # fmt: skip
_SCALARS = ("argument", "type", "value")
INPUTS = (Role.INPUT, Role.INPUT_PART)
OUTPUTS = (Role.OUTPUT, Role.OUTPUT_PART)


def value_columns(trace: TraceData) -> Columns:
    """``tensors.*`` and ``scalars.*``, and the input and output rows of each event."""
    count = len(trace.events)
    columns: Columns = {}
    for name, flat in (("tensors", _TENSORS), ("scalars", _SCALARS)):
        table = trace.table(name)
        columns |= {f"{name}.{column}": table[column] for column in flat}
        columns |= rows_of_events(f"{name}.inputs", table, INPUTS, count)
        columns |= rows_of_events(f"{name}.outputs", table, OUTPUTS, count)
    for name in ("sizes", "strides"):
        columns |= list_columns(f"tensors.{name}", trace.table("tensors").lists(name))
    if not len(trace.table("allocations")):
        # Frees were not recorded, so objects are identified by address alone, as in torch.
        unknown = np.broadcast_to(np.int64(-1), len(trace.table("tensors")))
        columns |= {"tensors.tensor_id": unknown, "tensors.allocation_id": unknown}
    return columns


def rows_of_events(prefix: str, table: Table, roles: Sequence[Role], count: int) -> Columns:
    """``prefix.rows``, and ``prefix.index`` if the selected rows are not consecutive."""
    event, role = table["event"], table["role"]
    has_role = (role == roles[0]) | (role == roles[-1])
    rows = np.flatnonzero(has_role & (event >= 0) & (event < count))
    owner = event[rows]
    ranges = row_ranges(owner, count)
    if len(rows) and not np.all(owner[1:] >= owner[:-1]):
        rows = rows[np.argsort(owner, kind="stable")]
    elif len(rows) == 0 or rows[-1] - rows[0] + 1 == len(rows):
        first = int(rows[0]) if len(rows) else 0
        return {f"{prefix}.rows": ranges + first}
    return {f"{prefix}.rows": ranges, f"{prefix}.index": rows.astype(np.int32)}


def nested_values(trace: TraceData) -> dict[int, Pieces]:
    """The nested values of a trace, by row in ``names``."""
    scalars = trace.table("scalars")
    kind, value = scalars["type"], scalars["value"]
    candidates = np.unique(value[(kind == ScalarType.OTHER) | (kind == ScalarType.OTHER_LIST)])
    return {row: pieces for row in candidates.tolist() if (pieces := _pieces(trace, row))}


def _pieces(trace: TraceData, row: int) -> Pieces | None:
    text = trace.names[row]
    return nested_pieces(text) if text.startswith("{") else None


GAP = "\0"  # placeholder of a tensor; JSON escapes it in texts
MAX_DEPTH = 64
_NONE = ("", "", "")

Pieces = tuple[list[str], list[str], list[str]]


def nested_pieces(text: str) -> Pieces | None:
    """Values, shapes and types of a nested value, each split at its tensors; None if not nested."""
    try:
        values, shapes, types = _texts(json.loads(text), 0)
    except (ValueError, RecursionError):
        return None
    return values.split(GAP), shapes.split(GAP), types.split(GAP)


def _texts(value: Any, depth: int) -> tuple[str, str, str]:
    kind, content = _open(value, depth)
    if kind == "Tensor":
        return GAP, GAP, GAP
    name = json.dumps(kind, ensure_ascii=False)[1:-1]
    if kind == "ComplexDouble" or content is None:
        return json.dumps(f"<{kind}>"), "[]", name
    if not isinstance(content, list):
        return json.dumps(content, ensure_ascii=False), "[]", name
    items = [_texts(item, depth + 1) for item in content]
    values, shapes, types = (
        (",".join(each) for each in zip(*items, strict=True)) if items else _NONE
    )
    return f"[{values}]", f"[{shapes}]", f"{name}[{types}]"


def _open(value: Any, depth: int) -> tuple[str, Any]:
    if value == "Tensor":
        return "Tensor", None
    if not isinstance(value, dict) or len(value) != 1 or depth > MAX_DEPTH:
        raise ValueError("not a nested value")
    [(kind, content)] = value.items()
    if isinstance(content, dict) or kind == "Tensor":
        raise ValueError("not a nested value")
    return kind, content


_UNKNOWN_SIZE = 1 << 30
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def schemas_of_events(trace: TraceData) -> tuple[npt.NDArray[np.int32], list[str]]:
    """The schema of every operator event: row in the list of texts, -1 without one.

    Texts come from torch's registry, if torch is installed.
    """
    events = trace.events
    row = np.full(len(events), -1, dtype=np.int32)
    is_call = (events["kind"] == EventKind.OPERATOR) & (events["scope"] == RecordScope.FUNCTION)
    calls = np.flatnonzero(is_call)
    # Name and overload are rows of names, so one integer holds the pair.
    pairs = (events["name"][calls].astype(np.int64) << 32) | (events["overload"][calls] + 1)
    distinct, schema_of_call = np.unique(pairs, return_inverse=True)
    exact = bool(trace.metadata.get("options", {}).get("overloads"))
    texts = [
        _schema(trace.names[pair >> 32], trace.names[(pair & 0xFFFFFFFF) - 1], exact)
        for pair in distinct.tolist()
    ]
    row[calls] = np.where([bool(text) for text in texts], np.arange(len(texts)), -1)[
        schema_of_call.reshape(-1)
    ]
    return row, texts


@cache
def schema_size(text: str) -> tuple[int, int]:
    """Number of arguments and of results of a schema; a very large number if unknown.

    ``aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)``
    has three and two.
    """
    name, arrow, results = text.rpartition(" -> ")
    arguments = name[name.find("(") + 1 : -1]
    if not arrow or not name.endswith(")") or "..." in text:
        return _UNKNOWN_SIZE, _UNKNOWN_SIZE
    several = results.startswith("(") and results.endswith(")")
    return _item_count(arguments), _item_count(results[1:-1]) if several else 1


def _item_count(text: str) -> int:
    text = _STRING.sub('""', text)
    depth, items = 0, [""]
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            items.append("")
        else:
            items[-1] += character
    return sum(item.strip() not in ("", "*") for item in items)


def _schema(name: str, overload: str, exact: bool) -> str:
    if "::" not in name:
        return ""
    # Without overload names, the schema is certain only for operators with one overload.
    candidates = (overload,) if overload or exact else _overloads(name)
    return _registered_text(name, candidates[0]) if len(candidates) == 1 else ""


@cache
def _registered_text(name: str, overload: str) -> str:
    return str(registered_schema(name, overload)) if overload in _overloads(name) else ""


def _overloads(name: str) -> tuple[str, ...]:
    """Names of overloads; empty without torch."""
    try:
        return registered_overloads(name)
    except ImportError:
        return ()


BLOCK_BYTES = 4 << 20


def json_inside(text: str) -> str:
    """``text`` as the inside of a JSON string."""
    return to_json(text)[1:-1]


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
    events, is_engine = trace.events, is_node(trace)
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
