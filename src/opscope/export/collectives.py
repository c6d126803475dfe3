"""What collectives did: process group, message sizes, element type.

torch says so itself where its backend emits ``record_param_comms`` (NCCL and relatives). Gloo does
not, so for the ``c10d`` operators without one it is worked out from their arguments and from the
process groups in the trace's metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from opscope.export.value_rows import keyword_values
from opscope.trace.dtypes import TORCH_NAMES
from opscope.trace.schema import Role
from opscope.trace.table import Table
from opscope.trace.trace import Trace
from opscope.tree.arguments import RowsOfEvent

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
"""torch.profiler's names of a collective's properties, and an execution trace's, in its order."""

_SCALAR_TYPES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16",
    "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long",
    "bool": "Bool", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip
"""c10's names of element types, which collectives are described with."""


@dataclass(frozen=True)
class _Signature:
    """Which arguments of a ``c10d`` operator are what; -1 for none."""

    name: str
    sent: int
    received: int
    group: int
    received_split: int = -1
    sent_split: int = -1


_SIGNATURES = {
    f"c10d::{operator}": signature
    for operator, signature in {
        "allreduce_": _Signature("allreduce", 0, 0, 1),
        "allreduce_coalesced_": _Signature("allreduce_coalesced", 0, 0, 1),
        "broadcast_": _Signature("broadcast", 0, 0, 1),
        "reduce_": _Signature("reduce", 0, 0, 1),
        "allgather_": _Signature("all_gather", 1, 0, 2),
        "_allgather_base_": _Signature("_allgather_base", 1, 0, 2),
        "allgather_coalesced_": _Signature("allgather_coalesced", 1, 0, 2),
        "allgather_into_tensor_coalesced_": _Signature("allgather_into_tensor_coalesced", 1, 0, 2),
        "reduce_scatter_": _Signature("reduce_scatter", 1, 0, 2),
        "_reduce_scatter_base_": _Signature("_reduce_scatter_base", 1, 0, 2),
        "reduce_scatter_tensor_coalesced_": _Signature("reduce_scatter_tensor_coalesced", 1, 0, 2),
        "gather_": _Signature("gather", 1, 0, 2),
        "scatter_": _Signature("scatter", 1, 0, 2),
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
    """One collective call.

    Attributes:
        event: row in ``events``.
        attributes: under the names of an execution trace; in_msg_nelems and so on.
        ranks: global ranks of the process group; empty if unknown.
        peer: global rank sent to or received from; -1 if there is none, or it is unknown.
        tag: of a message from one rank to another.
    """

    event: int
    attributes: dict[str, Any]
    ranks: list[int] = field(default_factory=list)
    peer: int = -1
    tag: int = 0


def find_collectives(trace: Trace) -> list[Collective]:
    """Every collective call of a trace, in order."""
    said = {
        event: _described(values)
        for event, values in keyword_values(trace, tuple(_NAMES)).items()
        if "Collective name" in values
    }
    inside = {int(trace.events["parent"][event]) for event in said}
    worked_out = {c.event: c for c in _from_arguments(trace) if c.event not in inside}
    described = [
        replace(worked_out.get(event, Collective(event, {})), attributes=attributes)
        for event, attributes in said.items()
    ]
    others = [c for event, c in worked_out.items() if event not in said]
    return sorted(described + others, key=lambda collective: collective.event)


def _described(values: dict[str, Any]) -> dict[str, Any]:
    """torch.profiler's properties of a collective as an execution trace has them."""
    properties = {_NAMES[name]: values[name] for name in _NAMES if name in values}
    for name in ("in_split_size", "out_split_size"):
        if isinstance(properties.get(name), str):
            properties[name] = _integers(properties[name])
    return properties


def _from_arguments(trace: Trace) -> Iterator[Collective]:
    """The ``c10d`` operators, as far as their arguments tell."""
    rows = {trace.names.find(name): signature for name, signature in _SIGNATURES.items()}
    rows.pop(-1, None)
    if not rows:
        return
    name = trace.events["name"]
    groups = trace.metadata.get("process_groups")
    tensors, scalars = RowsOfEvent(trace.table("tensors")), RowsOfEvent(trace.table("scalars"))
    for event in np.flatnonzero(np.isin(name, list(rows))).tolist():
        signature = rows[int(name[event])]
        texts = _scalar_texts(trace, scalars, event)
        group = _group(texts.get(signature.group, ""), groups)
        ranks = _rank_list(group.get("ranks"))
        attributes = {
            **_sizes(signature, tensors, event, texts),
            **_group_attributes(group, ranks),
        }
        yield Collective(event, attributes, ranks, *_peer_and_tag(signature.name, texts, ranks))


def _sizes(
    signature: _Signature, tensors: RowsOfEvent, event: int, texts: dict[int, str]
) -> dict[str, Any]:
    sent = _elements(tensors, event, signature.sent)
    received = _elements(tensors, event, signature.received)
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
    in_group, tag = (int(texts[i]) if texts.get(i, "").isdigit() else -1 for i in (2, 3))
    return (ranks[in_group] if 0 <= in_group < len(ranks) else in_group), max(tag, 0)


def _scalar_texts(trace: Trace, scalars: RowsOfEvent, event: int) -> dict[int, str]:
    table = scalars.table
    return {
        int(table["argument"][row]): trace.names[table["value"][row]]
        for row in scalars.rows(event).tolist()
        if table["role"][row] == Role.INPUT
    }


def _elements(tensors: RowsOfEvent, event: int, argument: int) -> tuple[int, int]:
    """How many elements an argument's tensors have together, and their c10::ScalarType."""
    table: Table = tensors.table
    sizes = table.lists("sizes")
    count, dtype = 0, -1
    for row in tensors.rows(event).tolist():
        is_input = table["role"][row] in (Role.INPUT, Role.INPUT_PART)
        if argument >= 0 and is_input and table["argument"][row] == argument:
            count += int(np.prod(sizes[row], dtype=np.int64))
            dtype = int(table["dtype"][row])
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
