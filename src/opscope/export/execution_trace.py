"""Execution traces: operators with their arguments and results, as torch's observer writes them.

The file has the schema of torch's ExecutionTraceObserver, which PARAM and Chakra read. It also has
the time of every node (``ts``, ``inclusive_dur``, ``exclusive_dur``: microseconds on the clock of
the Chrome trace). ``rf_id`` is ``Record function id`` in the Chrome trace.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError
from opscope.export.execution_trace_nodes import NodeWriter, base_ns_of
from opscope.export.format import Format
from opscope.export.output_file import Block, to_json, write_file
from opscope.timeline.window import process_id_of, window_of

SCHEMA = "1.1.1-chakra.0.0.4"  # schema of torch 2.13
PROCESS = "[pytorch|profiler|execution_trace|process]"


def write_execution_trace(
    trace: TraceData, path: str | os.PathLike[str], *, with_times: bool | None = None
) -> None:
    """Write ``trace`` to ``path``, compressed if that ends in ``.gz``.

    Args:
        trace: has inputs and outputs of its operators.
        path: replaced once the new file is complete.
        with_times: write start and duration of nodes, unlike torch; by default if known.

    Raises:
        UsageError: the trace has no arguments, or ``path`` cannot be written.
    """
    check_has_arguments(trace)
    metadata = trace.metadata
    window = window_of(trace, metadata)
    if with_times is None:
        with_times = trace.has_times
    head = {
        "pid": process_id_of(trace, metadata),
        "time": local_time(window.start_ns // 10**9),
        "start_ts": window.start_ns // 10**6,
    }
    nodes = NodeWriter(with_times=with_times)
    base_ns = base_ns_of(trace) if with_times else None
    write_file(path, whole_file(head, nodes.blocks(trace), window.end_ns // 10**6, base_ns=base_ns))


def check_has_arguments(trace: TraceData) -> None:
    """Raise UsageError if operators have no arguments."""
    operators = np.count_nonzero(trace.events["kind"] == EventKind.OPERATOR)
    if operators and not len(trace.table("tensors")) and not len(trace.table("scalars")):
        raise UsageError(
            f"The trace holds {operators:,} operators but no arguments, which an execution "
            "trace consists of. Record with ExecutionTraceObserver, or with "
            "profile(record_shapes=True, record_outputs=True)."
        )


def local_time(seconds: float) -> str:
    """Unix time in the file's format."""
    return time.strftime("%Y-%m-%d %X", time.localtime(seconds))


def whole_file(
    head: dict[str, Any], nodes: Iterable[Block], finish_ms: int, *, base_ns: int | None
) -> Iterator[Block]:
    """The complete text of the file.

    Args:
        head: ``pid``, ``time`` and ``start_ts``.
        nodes: all except the process node, each after a comma.
        finish_ms: on the clock of ``start_ts``.
        base_ns: Unix time that ``ts`` counts from; None without times.
    """
    pairs = "".join(f', "{key}": {to_json(value)}' for key, value in head.items())
    times = "" if base_ns is None else f', "baseTimeNanoseconds": {base_ns}'
    yield f'{{\n"schema": "{SCHEMA}"{pairs}{times},\n"nodes": [\n{_process_node()}'.encode()
    yield from nodes
    yield f'\n],"finish_ts": {finish_ms}\n}}\n'.encode()


def _process_node() -> str:
    nothing: dict[str, list[Any]] = {"values": [], "shapes": [], "types": [], "strides": []}
    attributes = [
        *(("rf_id", "uint64", 0), ("fw_parent", "uint64", 0), ("seq_id", "int64", -1)),
        *(("scope", "uint64", 7), ("tid", "uint64", 0), ("fw_tid", "uint64", 0)),
        *((name, "string", "") for name in ("op_schema", "kernel_backend", "kernel_file")),
        ("tensor_range", "string", ""),
    ]
    node = {
        "id": 1,
        "name": PROCESS,
        "ctrl_deps": 1,
        "inputs": nothing,
        "outputs": nothing,
        "attrs": [{"name": n, "type": t, "value": v} for n, t, v in attributes],
    }
    return to_json(node)


FORMAT = Format(
    name="execution-trace",
    suffixes=(".et.json", ".et.json.gz"),
    help="operators with arguments and results, as torch's ExecutionTraceObserver",
    write=write_execution_trace,
)
