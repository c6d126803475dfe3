"""Attributes of collectives: process group, message sizes, element type.

Backends that emit ``record_param_comms`` (NCCL and relatives) record them. Gloo does not; for
``c10d`` operators without it they are derived from the arguments and from the process groups in the
trace's metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from opscope.columns.dtypes import TORCH_NAMES
from opscope.columns.schema import Role
from opscope.columns.trace_data import TraceData
from opscope.timeline.tree.arguments import RowsOfEvent, keyword_values

NONE = -1  # an unknown time, number or group
POINT_TO_POINT = ("send", "recv")  # messages from one rank to another
TO_ALL = ("broadcast", "scatter")
FROM_ALL = ("reduce", "gather")
UNEVEN = ("all_to_all",)  # some ranks may receive nothing, and need not wait for others

_NAMES = {
    "Collective name": "collective_name",
    "dtype": "dtype",
    "In msg nelems": "in_msg_nelems",
    "Out msg nelems": "out_msg_nelems",
    "In split size": "in_split_size",
    "Out split size": "out_split_size",
    "Global rank start": "global_rank_start",
    "Global rank stride": "global_rank_stride",
    "Process Group Name": "pg_name",
    "Process Group Description": "pg_desc",
    "Group size": "pg_size",
    "Is asynchronized op": "is_asynchronized_op",
}
"""torch.profiler's names of a collective's properties to an execution trace's, in its order."""

_SEQUENCE = "Seq"

MOST_RANKS = 1 << 20  # maximum ranks of a job; a file may contain any number

_SCALAR_TYPES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16",
    "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long",
    "bool": "Bool", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip
"""c10's names of element types, used in descriptions of collectives."""


@dataclass(frozen=True)
class _Signature:
    """Positions of the arguments of a ``c10d`` operator; -1 for none."""

    name: str
    sent: int
    received: int
    group: int
    root: int = -1
    received_split: int = -1
    sent_split: int = -1


_SIGNATURES = {
    f"c10d::{operator}": signature
    for operator, signature in {
        "allreduce_": _Signature("allreduce", 0, 0, 1),
        "allreduce_coalesced_": _Signature("allreduce_coalesced", 0, 0, 1),
        "broadcast_": _Signature("broadcast", 0, 0, 1, root=2),
        "reduce_": _Signature("reduce", 0, 0, 1, root=3),
        "allgather_": _Signature("all_gather", 1, 0, 2),
        "_allgather_base_": _Signature("_allgather_base", 1, 0, 2),
        "allgather_coalesced_": _Signature("allgather_coalesced", 1, 0, 2),
        "allgather_into_tensor_coalesced_": _Signature("allgather_into_tensor_coalesced", 1, 0, 2),
        "reduce_scatter_": _Signature("reduce_scatter", 1, 0, 2),
        "_reduce_scatter_base_": _Signature("_reduce_scatter_base", 1, 0, 2),
        "reduce_scatter_tensor_coalesced_": _Signature("reduce_scatter_tensor_coalesced", 1, 0, 2),
        "gather_": _Signature("gather", 1, 0, 2, root=3),
        "scatter_": _Signature("scatter", 1, 0, 2, root=3),
        "alltoall_": _Signature("all_to_all", 1, 0, 2),
        "alltoall_base_": _Signature("all_to_all", 1, 0, 2, received_split=3, sent_split=4),
        "barrier": _Signature("barrier", -1, -1, 1),
        "monitored_barrier_": _Signature("barrier", -1, -1, 1),
        "send": _Signature("send", 0, -1, 1),
        "recv_": _Signature("recv", -1, 0, 1),
        "recv_any_source_": _Signature("recv", -1, 0, 1),
    }.items()
}


@dataclass(frozen=True)
class Collective:
    """One collective call."""

    event: int  # row in ``events``
    attributes: dict[str, Any]  # by an execution trace's names; equal calls share the object
    ranks: list[int] = field(default_factory=list)  # global ranks; empty if unknown
    peer: int = -1  # global rank sent to or received from; -1 if none or unknown
    tag: int = 0  # tag of a message from one rank to another
    sequence: int = -1  # the backend's number of the call in its group; -1 if unknown
    root: int = -1  # global rank that sends to all or receives from all; -1 if none or unknown
    address: str = ""  # address of the process group in the arguments; empty if missing


def find_collectives(trace: TraceData) -> list[Collective]:
    """Find every collective call of a trace, in order."""
    recorded = {
        event: values
        for event, values in keyword_values(trace, (*_NAMES, _SEQUENCE)).items()
        if "Collective name" in values
    }
    inside = {int(trace.events["parent"][event]) for event in recorded}
    derived = {c.event: c for c in _from_arguments(trace) if c.event not in inside}
    described = [
        replace(
            derived.get(event, Collective(event, {}, _ranks_of_group(values))),
            attributes=_described(values),
            sequence=_whole_number(values.get(_SEQUENCE)),
        )
        for event, values in recorded.items()
    ]
    others = [c for event, c in derived.items() if event not in recorded]
    return sorted(described + others, key=lambda collective: collective.event)


def _ranks_of_group(values: dict[str, Any]) -> list[int]:
    """Global ranks of the group, from torch's first rank, stride and size; empty if invalid."""
    first, stride, size = (
        _whole_number(values.get(f"Global rank {name}" if name else "Group size"))
        for name in ("start", "stride", "")
    )
    if min(first, size) < 0 or (stride < 1 and size > 1) or size > MOST_RANKS:
        return []
    return list(range(first, first + max(stride, 1) * size, max(stride, 1)))


def _whole_number(value: Any) -> int:
    return value if isinstance(value, int) else -1


def _described(values: dict[str, Any]) -> dict[str, Any]:
    """torch.profiler's properties of a collective with an execution trace's names."""
    properties = {_NAMES[name]: values[name] for name in _NAMES if name in values}
    for name in ("in_split_size", "out_split_size"):
        if isinstance(properties.get(name), str):
            properties[name] = _integers(properties[name])
    return properties


def _from_arguments(trace: TraceData) -> Iterator[Collective]:
    """Collectives from ``c10d`` operators, identified by their arguments."""
    rows = {trace.names.find(name): signature for name, signature in _SIGNATURES.items()}
    rows.pop(-1, None)
    if not rows:
        return
    name = trace.events["name"]
    groups = trace.metadata.get("process_groups")
    events = np.flatnonzero(np.isin(name, list(rows)))
    tensors = RowsOfEvent(trace.table("tensors")).columns_of(
        events, "role", "argument", "dtype", "sizes"
    )
    scalars = RowsOfEvent(trace.table("scalars")).columns_of(events, "role", "argument", "value")
    by_arguments: dict[Any, Collective] = {}  # most calls equal an earlier one
    for event, of_name, *values in zip(
        events.tolist(), name[events].tolist(), tensors, scalars, strict=True
    ):
        key = (of_name, *map(tuple, values))
        found = by_arguments.get(key)
        if found is None:
            found = by_arguments[key] = _from_rows(trace, rows[of_name], groups, *values)
        yield replace(found, event=event)


def _from_rows(
    trace: TraceData,
    signature: _Signature,
    groups: Any,
    tensors: list[tuple[Any, ...]],
    scalars: list[tuple[Any, ...]],
) -> Collective:
    """Collective of one operator by its arguments, without its event."""
    texts = {
        argument: trace.names[value] for role, argument, value in scalars if role == Role.INPUT
    }
    group = _group(texts.get(signature.group, ""), groups)
    ranks = _rank_list(group.get("ranks"))
    attributes = {**_sizes(signature, tensors, texts), **_group_attributes(group, ranks)}
    peer, tag = _peer_and_tag(signature.name, texts, ranks)
    root = _global_rank(texts.get(signature.root, ""), ranks)
    address = texts.get(signature.group, "").partition(" ")[2]
    return Collective(-1, attributes, ranks, peer, tag, root=root, address=address)


def _sizes(
    signature: _Signature, tensors: list[tuple[Any, ...]], texts: dict[int, str]
) -> dict[str, Any]:
    sent = _elements(tensors, signature.sent)
    received = _elements(tensors, signature.received)
    return {
        "collective_name": signature.name,
        "dtype": _scalar_type(sent[1] if sent[1] >= 0 else received[1]),
        "in_msg_nelems": sent[0],
        "out_msg_nelems": received[0],
        "in_split_size": _integers(texts.get(signature.sent_split, "")),
        "out_split_size": _integers(texts.get(signature.received_split, "")),
    }


def _peer_and_tag(name: str, texts: dict[int, str], ranks: list[int]) -> tuple[int, int]:
    if name not in ("send", "recv"):
        return -1, 0
    tag = texts.get(3, "")
    return _global_rank(texts.get(2, ""), ranks), int(tag) if tag.isdigit() else 0


def _global_rank(text: str, ranks: list[int]) -> int:
    """Global rank of a rank within a group, or that rank if unknown; -1 for none."""
    in_group = int(text) if text.isdigit() else -1
    return ranks[in_group] if 0 <= in_group < len(ranks) else in_group


def _elements(tensors: list[tuple[Any, ...]], argument: int) -> tuple[int, int]:
    """Number of elements of an argument's tensors, and their c10::ScalarType."""
    count, dtype = 0, -1
    for role, own, kind, sizes in tensors:
        if argument >= 0 and role in (Role.INPUT, Role.INPUT_PART) and own == argument:
            count += int(np.prod(sizes, dtype=np.int64))
            dtype = kind
    return count, dtype


def _scalar_type(dtype: int) -> str:
    name = TORCH_NAMES.get(dtype, "")
    return _SCALAR_TYPES.get(name, name)


def _group(text: str, groups: Any) -> dict[str, Any]:
    address = text.partition(" ")[2]
    group = groups.get(address) if isinstance(groups, dict) else None
    return group if isinstance(group, dict) else {}


def _group_attributes(group: dict[str, Any], ranks: list[int]) -> dict[str, Any]:
    if not group:
        return {}
    steps = {after - before for before, after in pairwise(ranks)}
    return {
        "global_rank_start": ranks[0] if ranks else 0,
        "global_rank_stride": steps.pop() if len(steps) == 1 else 0 if not steps else -1,
        "pg_name": str(group.get("pg_name", "")),
        "pg_desc": str(group.get("pg_desc", "")),
        "pg_size": len(ranks),
    }


def _rank_list(ranks: Any) -> list[int]:
    return [rank for rank in ranks if isinstance(rank, int)] if isinstance(ranks, list) else []


def _integers(text: str) -> list[int]:
    inner = text.strip().removeprefix("[").removesuffix("]")
    return [int(part) for part in inner.split(",") if part.strip().lstrip("-").isdigit()]
