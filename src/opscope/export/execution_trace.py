"""Execution traces: operators with their arguments and results, as torch's observer writes them.

The file has the schema of torch's ExecutionTraceObserver, which PARAM, Chakra and others read, and
beside it the time of every node (``ts``, ``inclusive_dur``, ``exclusive_dur``, in microseconds and
on the clock of the Chrome trace): it needs no linking with a second file. ``rf_id`` is what the
Chrome trace of the same trace calls ``Record function id``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope import _native
from opscope.errors import UsageError
from opscope.export.chrome_columns import Columns, name_columns, row_ranges
from opscope.export.chrome_header import process_id_of, window_of
from opscope.export.collectives import find_collectives
from opscope.export.json_text import to_json
from opscope.export.operator_schemas import schemas_of_events
from opscope.export.output_file import Block, write_file
from opscope.export.value_rows import keyword_values, nested_values, value_columns
from opscope.trace.dtypes import CPP_NAMES, ITEM_SIZES
from opscope.trace.labels import DEVICES
from opscope.trace.schema import EventKind
from opscope.trace.trace import Trace
from opscope.tree.ancestry import nearest_ancestor
from opscope.tree.self_time import minus_children

SCHEMA = "1.1.1-chakra.0.0.4"
"""Of torch 2.13."""

BLOCK_BYTES = 4 << 20

_ENGINE = "autograd::engine::evaluate_function: "
_PROCESS = "[pytorch|profiler|execution_trace|process]"
_EVENTS = (
    "thread", "parent", "name", "launch_thread", "kind", "scope", "start_ns", "duration_ns",
    "record_function_id",
)  # fmt: skip


@dataclass(frozen=True)
class Heading:
    """What an execution trace says of itself.

    Attributes:
        process_id: of the process that ran.
        time: local time when it was begun, ``YYYY-MM-DD HH:MM:SS``.
        start_ms: milliseconds of any one clock.
        finish_ms: likewise.
    """

    process_id: int
    time: str
    start_ms: int
    finish_ms: int


def write_execution_trace(
    trace: Trace, path: str | os.PathLike[str], *, with_times: bool = True
) -> None:
    """Write ``trace`` to ``path``, compressed if that ends in ``.gz``.

    Args:
        trace: one that has inputs and outputs of its operators.
        path: replaced once the new file is complete.
        with_times: write when each node ran and for how long, which torch's observer does not.

    Raises:
        UsageError: the trace has no arguments, or ``path`` cannot be written.
    """
    check_has_arguments(trace)
    metadata = trace.metadata
    window = window_of(trace, metadata)
    began = time.strftime("%Y-%m-%d %X", time.localtime(window.start_ns // 10**9))
    heading = Heading(
        process_id_of(trace, metadata), began, window.start_ns // 10**6, window.end_ns // 10**6
    )
    write_file(path, execution_trace_blocks([trace], heading, with_times=with_times))


def check_has_arguments(trace: Trace) -> None:
    """Make sure that there is something to say about the operators of a trace.

    Raises:
        UsageError: there are operators, and neither arguments nor results of any.
    """
    operators = np.count_nonzero(trace.events["kind"] == EventKind.OPERATOR)
    if operators and not len(trace.table("tensors")) and not len(trace.table("scalars")):
        raise UsageError(
            f"The trace holds {operators:,} operators but no arguments of any, so an execution "
            "trace of it would say nothing. Record with ExecutionTraceObserver, or with "
            "profile(record_shapes=True, record_outputs=True)."
        )


def execution_trace_blocks(
    traces: Iterable[Trace], heading: Heading, *, with_times: bool = True
) -> Iterator[Block]:
    """The file in blocks of a few megabytes; one after another, ``traces`` of one process."""
    yield _head(heading).encode()
    writer = _native.ExecutionTraceWriter()
    for trace in traces:
        _begin(writer, trace, with_times)
        while (block := writer.next_block(BLOCK_BYTES)) is not None:
            yield block
    yield f'\n],"finish_ts": {heading.finish_ms}\n}}\n'.encode()


def _head(heading: Heading) -> str:
    nothing: dict[str, list[Any]] = {"values": [], "shapes": [], "types": [], "strides": []}
    attributes = [
        *(("rf_id", "uint64", 0), ("fw_parent", "uint64", 0), ("seq_id", "int64", -1)),
        *(("scope", "uint64", 7), ("tid", "uint64", 0), ("fw_tid", "uint64", 0)),
        *((name, "string", "") for name in ("op_schema", "kernel_backend", "kernel_file")),
        ("tensor_range", "string", ""),
    ]
    root = {
        "id": 1,
        "name": _PROCESS,
        "ctrl_deps": 1,
        "inputs": nothing,
        "outputs": nothing,
        "attrs": [{"name": n, "type": t, "value": v} for n, t, v in attributes],
    }
    return (
        f'{{\n"schema": "{SCHEMA}", "pid": {heading.process_id}, "time": "{heading.time}", '
        f'"start_ts": {heading.start_ms},\n"nodes": [\n{to_json(root)}'
    )


def _begin(writer: _native.ExecutionTraceWriter, trace: Trace, with_times: bool) -> None:
    schema, schemas = schemas_of_events(trace)
    kernel, kernels = _kernels(trace)
    extras, fragments = _collective_columns(trace)
    writer.begin(
        {
            **{f"events.{name}": trace.events[name] for name in _EVENTS},
            **_links(trace),
            "events.self_ns": _self_ns(trace),
            "events.schema": schema,
            "events.kernel": kernel,
            "threads.number": _thread_numbers(trace),
            **name_columns(trace),
            **value_columns(trace),
            **extras,
        },
        schemas=[to_json(text)[1:-1] for text in schemas],
        kernels=kernels,
        fragments=fragments,
        nested=nested_values(trace),
        dtype_names=[CPP_NAMES.get(code, "") for code in range(max(CPP_NAMES) + 1)],
        itemsizes=[ITEM_SIZES.get(code, 0) for code in range(max(CPP_NAMES) + 1)],
        device_names=[DEVICES.get(code, "") for code in range(max(DEVICES) + 1)],
        base_ns=window_of(trace, trace.metadata).base_ns,
        has_times=with_times,
    )


def _links(trace: Trace) -> Columns:
    """Sequence numbers and forward threads as torch records them.

    A trace has those of a backward node on the engine's span around it too, as torch.profiler does;
    an execution trace does not.
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


def _self_ns(trace: Trace) -> Any:
    """Duration of every node outside the nodes in it."""
    events = trace.events
    is_node = events["kind"] <= EventKind.ANNOTATION
    counted = is_node & ~events["is_async"]
    parent = nearest_ancestor(events["parent"], counted)
    return np.maximum(minus_children(parent, events["duration_ns"], counted & (parent >= 0)), 0)


def _thread_numbers(trace: Trace) -> Any:
    """What the file calls each thread: torch's number, where it is known."""
    threads = trace.table("threads")
    torch_id = threads["torch_thread_id"]
    return np.where(torch_id != 0, torch_id, threads["system_thread_id"]).astype(np.int64)


def _kernels(trace: Trace) -> tuple[Any, list[tuple[str, str, str]]]:
    """Which generated kernel each event launched, and what is said of those."""
    row = np.full(len(trace.events), -1, dtype=np.int32)
    texts: dict[tuple[str, str, str], int] = {}
    found = keyword_values(trace, ("kernel_backend", "kernel_file", "stream"))
    for event, values in found.items():
        backend = str(values.get("kernel_backend", ""))
        if not backend:
            continue
        file, stream = "", ""
        if backend == "triton":
            file = os.path.basename(str(values.get("kernel_file", "")))
            stream = str(values["stream"]) if isinstance(values.get("stream"), int) else ""
        text = (to_json(backend)[1:-1], to_json(file)[1:-1], stream)
        row[event] = texts.setdefault(text, len(texts))
    return row, list(texts)


def _collective_columns(trace: Trace) -> tuple[Columns, list[str]]:
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
