"""Chakra traces: the protocol buffers of mlcommons/chakra, for simulators such as ASTRA-sim.

One trace becomes one file; no execution trace and timeline have to be linked first. Nodes have the
ids of the execution trace of the same trace. ``ctrl_deps`` says what called a node, ``data_deps``
what it waits for: the node before it on its thread or stream, its launch, the operator on another
thread that made its data, and after a synchronisation the last activity per stream.
``duration_micros`` is what a node took outside the nodes it called.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from opscope import _native
from opscope.analysis.collectives.calls import Collective, find_collectives
from opscope.export import chakra_dependencies as dependencies
from opscope.export.execution_trace import SCHEMA, check_has_arguments, local_time
from opscope.export.execution_trace_nodes import BLOCK_BYTES, base_ns_of, node_columns
from opscope.export.format import Format
from opscope.export.native_blocks import blocks_of
from opscope.export.native_columns import Columns, row_ranges
from opscope.export.output_file import Block, write_file
from opscope.export.protobuf import message, varint
from opscope.export.window import process_id_of, window_of
from opscope.trace.codes import GpuKind
from opscope.trace.dtypes import ITEM_SIZES, TORCH_NAMES
from opscope.trace.names import Names
from opscope.trace.trace import Trace

VERSION = "0.0.4"

# NodeType and CollectiveCommType of et_def.proto.
METADATA_NODE, COMP_NODE = 1, 4
SEND_NODE, RECEIVE_NODE, COLLECTIVE_NODE = 5, 6, 7
_COLLECTIVES = {
    "allreduce": 0,
    "reducescatter": 7,
    "allgather": 2,
    "alltoall": 6,
    "broadcast": 5,
    "gather": 3,
    "scatter": 4,
    "reduce": 1,
    "barrier": 9,
}
"""By part of the name, longer ones first."""

_GROUPS = "## process_group:init ##"
_WORK = (GpuKind.KERNEL, GpuKind.COPY, GpuKind.SET)


def write_chakra(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write ``trace`` to ``path``, by convention ``NAME.RANK.et``.

    Raises:
        UsageError: the trace has no arguments, or ``path`` cannot be written.
    """
    check_has_arguments(trace)
    write_file(path, chakra_blocks(trace))


def chakra_blocks(trace: Trace) -> Iterator[Block]:
    """The file in blocks of a few megabytes."""
    metadata = _metadata(trace)
    yield varint(len(metadata)) + metadata
    gpu = trace.table("gpu")
    gpu_rows = np.flatnonzero(np.isin(gpu["kind"], _WORK))
    columns, settings = node_columns(trace, escape=_encodable)
    collectives = find_collectives(trace)
    transfers = _transfers_of(trace, collectives)
    communication, fragments = _communication(trace, gpu_rows, collectives, transfers)
    writer = _native.ExecutionTraceWriter(chakra=True)
    writer.begin(
        {
            **columns,
            **_encodable_names(trace),
            **_gpu_columns(trace, gpu_rows),
            **_dependency_columns(trace, gpu_rows, transfers),
            **communication,
        },
        **settings,
        fragments=fragments,
        base_ns=base_ns_of(trace),
        has_times=True,
    )
    yield from blocks_of(writer, BLOCK_BYTES, len(trace.events) + len(gpu_rows))


def _metadata(trace: Trace) -> bytes:
    metadata = trace.metadata
    window = window_of(trace, metadata)
    attributes = [
        _text("schema", SCHEMA),
        _unsigned("pid", process_id_of(trace, metadata)),
        _text("time", local_time(window.start_ns // 10**9)),
        _unsigned("start_ts", window.start_ns // 10**6),
        _unsigned("finish_ts", window.end_ns // 10**6),
    ]
    groups = process_groups(trace)
    if groups:
        attributes.append(_text("process_groups", json.dumps(groups)))
    return message((1, VERSION), *((2, attribute) for attribute in attributes))


def process_groups(trace: Trace) -> dict[str, list[int]]:
    """Global ranks of every process group, by its name."""
    known = trace.metadata.get("process_groups")
    groups = list(known.values()) if isinstance(known, dict) else []
    groups += _described_groups(trace)
    return {
        str(group["pg_name"]): group["ranks"]
        for group in reversed(groups)
        if isinstance(group, dict) and "pg_name" in group and isinstance(group.get("ranks"), list)
    }


def _described_groups(trace: Trace) -> list[Any]:
    """What torch.distributed's own annotation says of its groups."""
    scalars = trace.table("scalars")
    described = np.isin(trace.events["name"], [trace.names.find(_GROUPS)])
    described &= trace.events["name"] >= 0
    rows = np.flatnonzero(np.isin(scalars["event"], np.flatnonzero(described)))
    groups: list[Any] = []
    for value in np.unique(scalars["value"][rows]).tolist():
        try:
            groups += json.loads(trace.names[value])
        except (ValueError, TypeError):
            continue
    return groups


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _encodable_names(trace: Trace) -> Columns:
    """``names.*`` if they are not UTF-8 already, which protocol buffers insist on."""
    try:
        trace.names.blob.decode()
        return {}
    except UnicodeDecodeError:
        names = Names.from_strings(_encodable(text) for text in trace.names)
    return {
        "names.offsets": names.offsets,
        "names.bytes": np.frombuffer(names.blob, dtype=np.uint8),
    }


def _gpu_columns(trace: Trace, rows: Any) -> Columns:
    gpu = trace.table("gpu")
    names = ("name", "launch", "stream", "start_ns", "duration_ns")
    return {f"gpu.{name}": gpu[name][rows] for name in names}


def _dependency_columns(trace: Trace, gpu_rows: Any, transfers: dict[int, int]) -> Columns:
    of_events = dependencies.joined(
        dependencies.data_of_other_threads(trace, transfers),
        dependencies.synchronisations(trace, gpu_rows),
        (_int64(transfers.values()), _int64(transfers.keys())),
    )
    of_gpu = dependencies.order_on_streams(trace, gpu_rows)
    return {
        **dependencies.ragged(of_events, len(trace.events), "chakra.dependencies"),
        **dependencies.ragged(of_gpu, len(gpu_rows), "gpu.dependencies"),
    }


def _int64(rows: Iterable[int]) -> Any:
    return np.array(list(rows), dtype=np.int64)


def _communication(
    trace: Trace, gpu_rows: Any, collectives: list[Collective], transfers: dict[int, int]
) -> tuple[Columns, list[bytes]]:
    """Which nodes move data between processes, and what is said of those."""
    event_type = np.full(len(trace.events), COMP_NODE, dtype=np.uint8)
    event_type[trace.events["name"] == trace.names.find(_GROUPS)] = METADATA_NODE
    gpu_type = np.full(len(gpu_rows), COMP_NODE, dtype=np.uint8)
    kernels = _kernels_of(trace, gpu_rows, collectives)
    fragments: list[bytes] = []
    of_events: list[tuple[int, int]] = []
    of_gpu: list[tuple[int, int]] = []
    for collective in collectives:
        node_type, attributes = _describe(collective)
        numbers = range(len(fragments), len(fragments) + len(attributes))
        fragments += attributes
        if collective.event in kernels:
            for row in kernels[collective.event]:
                gpu_type[row] = node_type
                of_gpu += [(row, number) for number in numbers]
            continue
        event = transfers.get(collective.event, collective.event)
        event_type[event] = node_type
        of_events += [(event, number) for number in numbers]
    return {
        "chakra.type": event_type,
        "gpu.type": gpu_type,
        **_extras("extras", of_events, len(trace.events)),
        **_extras("gpu.extras", of_gpu, len(gpu_rows)),
    }, fragments


def _extras(prefix: str, pairs: list[tuple[int, int]], count: int) -> Columns:
    table = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
    return {
        f"{prefix}.rows": row_ranges(table[:, 0], count),
        f"{prefix}.fragment": np.ascontiguousarray(table[:, 1]).astype(np.int32),
    }


def _kernels_of(trace: Trace, gpu_rows: Any, collectives: list[Collective]) -> dict[int, list[int]]:
    """The device activities that each collective launched, for those that launched any."""
    wanted = {collective.event for collective in collectives}
    launch, parent = trace.table("gpu")["launch"], trace.events["parent"]
    found: dict[int, list[int]] = {}
    if not wanted:
        return found
    for place, row in enumerate(gpu_rows.tolist()):
        event = int(launch[row])
        while event >= 0 and event not in wanted:
            above = int(parent[event])
            event = above if above < event else -1
        if event >= 0:
            found.setdefault(event, []).append(place)
    return found


def _transfers_of(trace: Trace, collectives: list[Collective]) -> dict[int, int]:
    """The spans in which gloo moved the data, on threads of its own, of each collective.

    gloo says nothing that would tell them apart, but begins them in the order they were asked for.
    """
    names = {
        row for row in np.unique(trace.events["name"]).tolist()
        if trace.names[row].startswith("gloo:")
    }  # fmt: skip
    spans = np.flatnonzero(np.isin(trace.events["name"], list(names))).tolist()
    waiting = [collective.event for collective in collectives]
    found: dict[int, int] = {}
    for span in spans:
        if waiting and waiting[0] < span:
            found[waiting.pop(0)] = span
    return found


def _describe(collective: Collective) -> tuple[int, list[bytes]]:
    """The type of a node that communicates, and its attributes."""
    values = collective.attributes
    name = str(values.get("collective_name", ""))
    attributes = [_integer("comm_size", _bytes_sent(values))]
    if values.get("pg_name"):
        attributes.append(_text("pg_name", str(values["pg_name"])))
    if name.startswith(("send", "recv")):
        is_send = name.startswith("send")
        attributes.append(_int32("comm_dst" if is_send else "comm_src", collective.peer))
        attributes.append(_int32("comm_tag", collective.tag))
        return (SEND_NODE if is_send else RECEIVE_NODE), attributes
    plain = name.replace("_", "").lower()
    kind = next((code for part, code in _COLLECTIVES.items() if part in plain), None)
    if kind is not None:
        attributes.append(_integer("comm_type", kind))
    return COLLECTIVE_NODE, attributes


def _bytes_sent(values: Mapping[str, Any]) -> int:
    count = values.get("in_msg_nelems") or values.get("out_msg_nelems") or 0
    return int(count) * _ITEM_SIZES.get(str(values.get("dtype", "")).lower(), 1)


_C10_NAMES = {
    "float": "float32", "double": "float64", "half": "float16", "byte": "uint8", "char": "int8",
    "short": "int16", "int": "int32", "long": "int64", "complexfloat": "complex64",
    "complexdouble": "complex128",
}  # fmt: skip
_ITEM_SIZES = {name: ITEM_SIZES[code] for code, name in TORCH_NAMES.items()}
_ITEM_SIZES |= {c10: _ITEM_SIZES[name] for c10, name in _C10_NAMES.items()}


def _text(name: str, value: str) -> bytes:
    return message((1, name), (29, value))


def _integer(name: str, value: int) -> bytes:
    return message((1, name), (9, value))


def _int32(name: str, value: int) -> bytes:
    return message((1, name), (7, value))


def _unsigned(name: str, value: int) -> bytes:
    return message((1, name), (13, value))


FORMAT = Format(
    name="chakra",
    suffixes=(".et",),
    help="mlcommons/chakra's graph of operators and what they wait for, for simulators",
    write=write_chakra,
)
