"""Everything torch.profiler lists, in one order: events, memory, device work; their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.analysis.flops import FlopCounts
from opscope.columns.codes import DeviceType
from opscope.columns.dtypes import CPP_NAMES, TORCH_NAMES
from opscope.columns.schema import AllocationAction, EventKind, ScalarType
from opscope.timeline.arrays import Values
from opscope.timeline.listing import ANNOTATION as GPU_ANNOTATION
from opscope.timeline.listing import (
    MEMORY_NAME,
    OUT_OF_MEMORY_NAME,
    TorchListing,
    averaged_name,
    listed_gpu_rows,
    measure_device_time,
)
from opscope.timeline.signatures import group_sums
from opscope.timeline.tree.arguments import Argument, Scalar, TensorRecord
from opscope.timeline.tree.event_tree import subtree_sums

CPU_TYPES = (DeviceType.CPU, DeviceType.MKLDNN, DeviceType.IDEEP)  # types with host memory
DEVICE_TYPES = (DeviceType.CUDA, DeviceType.HIP, DeviceType.XPU, DeviceType.PrivateUse1)
"""Types of accelerators that torch counts."""


def allocation_bytes(listing: TorchListing, device_types: tuple[int, ...]) -> Values:
    """Net size of each allocation on :data:`CPU_TYPES` or :data:`DEVICE_TYPES`, 0 for others."""
    table = listing.trace.table("allocations")
    counted = np.isin(table["device_type"], device_types)
    counted &= table["action"] != AllocationAction.OUT_OF_MEMORY
    return np.where(counted, table["size_bytes"], 0)


def measure_memory(listing: TorchListing, device_types: tuple[int, ...]) -> tuple[Values, Values]:
    """Net bytes of every event with everything inside it, and outside its listed children."""
    event = listing.trace.table("allocations")["event"]
    inside, size = event >= 0, allocation_bytes(listing, device_types)
    own = group_sums(size[inside], event[inside], len(listing.trace.events))
    if not own.any():
        return own, own
    total = subtree_sums(listing.tree.parent, own)
    return total, listing.minus_children(total)


Labels = npt.NDArray[np.signedinteger[Any]]


class RowSource(IntEnum):
    """Table of a listed row."""

    EVENT = 0
    ALLOCATION = 1
    GPU = 2


Quantities = dict[str, Values]
"""Values to sum over rows; those that are not in it are all 0.

``cpu_total_ns``, ``cpu_self_ns``, ``device_total_ns``, ``device_self_ns``, ``cpu_memory_bytes``,
``cpu_self_memory_bytes``, ``device_memory_bytes``, ``device_self_memory_bytes``, ``flops``. Memory
is net bytes; "self" excludes listed children.
"""


@dataclass(frozen=True)
class ListedRows:
    """Rows in order of start. Arrays have shape (rows,)."""

    source: npt.NDArray[np.int8]  # RowSource
    row: Values  # row in its table
    label: Labels  # row in ``texts``
    key: Labels  # number of torch's averaging group: name, on device, is annotation
    texts: list[str]  # names as in averages
    quantities: Quantities  # values of each row

    def __len__(self) -> int:
        return len(self.row)


def list_rows(listing: TorchListing, flops: FlopCounts | None = None) -> ListedRows:
    """Listed rows of ``listing``, with ``flops`` if given."""
    parts = [_events(listing, flops)]
    start = [listing.tree.start_ns[parts[0].row]]
    loose = listing.loose_allocations
    if loose.size:
        parts.append(_memory(listing, loose))
        start.append(listing.trace.table("allocations")["time_ns"][loose])
    on_device = listed_gpu_rows(listing)
    if on_device.size:
        parts.append(_device(listing, on_device))
        start.append(listing.trace.table("gpu")["start_ns"][on_device])
    return parts[0] if len(parts) == 1 else _merge(parts, np.concatenate(start))


def _events(listing: TorchListing, flops: FlopCounts | None) -> ListedRows:
    trace, rows = listing.trace, listing.rows
    columns: dict[str, Values] = {
        "cpu_total_ns": listing.counted_ns,
        "cpu_self_ns": listing.self_ns,
    }
    if len(trace.table("allocations")):
        for prefix, types in (("cpu_", CPU_TYPES), ("device_", DEVICE_TYPES)):
            total, own = measure_memory(listing, types)
            columns[f"{prefix}memory_bytes"] = listing.counted(total)
            columns[f"{prefix}self_memory_bytes"] = own
    if len(trace.table("gpu")):
        device = measure_device_time(listing)
        columns["device_total_ns"] = listing.counted(device.total_ns)
        columns["device_self_ns"] = device.self_ns
    if flops is not None:
        columns["flops"] = flops.flops
    annotation = trace.events["kind"] == EventKind.ANNOTATION
    label, key = listing.group_label, listing.group_label * 4 + annotation
    if len(rows) < len(label):
        columns = {name: values[rows] for name, values in columns.items()}
        label, key = label[rows], key[rows]
    source = np.broadcast_to(np.int8(RowSource.EVENT), (len(rows),))
    return ListedRows(source, rows, label, key, listing.group_texts, columns)


def _memory(listing: TorchListing, rows: Values) -> ListedRows:
    table = listing.trace.table("allocations")
    label = (table["action"][rows] == AllocationAction.OUT_OF_MEMORY).astype(np.int64)
    quantities: Quantities = {}
    for prefix, types in (("cpu_", CPU_TYPES), ("device_", DEVICE_TYPES)):
        size = allocation_bytes(listing, types)[rows]
        quantities |= {f"{prefix}memory_bytes": size, f"{prefix}self_memory_bytes": size}
    source = np.full(len(rows), RowSource.ALLOCATION, dtype=np.int8)
    texts = [MEMORY_NAME, OUT_OF_MEMORY_NAME]
    return ListedRows(source, rows, label, label * 4, texts, quantities)


def _device(listing: TorchListing, rows: Values) -> ListedRows:
    gpu, names = listing.trace.table("gpu"), listing.trace.names
    used, label = np.unique(gpu["name"][rows], return_inverse=True)
    texts = [averaged_name(names[name]) for name in used]
    duration = gpu["duration_ns"][rows]
    kind = gpu["kind"][rows]
    key = label * 4 + 2 + (kind == GPU_ANNOTATION)
    source = np.full(len(rows), RowSource.GPU, dtype=np.int8)
    quantities = {"device_total_ns": duration, "device_self_ns": duration}
    return ListedRows(source, rows, label, key, texts, quantities)


def _merge(parts: list[ListedRows], start: Values) -> ListedRows:
    order = np.argsort(start, kind="stable")
    texts: dict[str, int] = {}
    label, key = [], []
    for part in parts:
        number = np.array([texts.setdefault(t, len(texts)) for t in part.texts], dtype=np.int64)
        label.append(number[part.label])
        key.append(label[-1] * 4 + part.key % 4)
    names = dict.fromkeys(name for part in parts for name in part.quantities)
    nothing = [np.zeros(len(part), dtype=np.int64) for part in parts]
    columns = {
        name: np.concatenate(
            [part.quantities.get(name, zero) for part, zero in zip(parts, nothing, strict=True)]
        )[order]
        for name in names
    }
    return ListedRows(
        source=np.concatenate([part.source for part in parts])[order],
        row=np.concatenate([part.row for part in parts])[order],
        label=np.concatenate(label)[order],
        key=np.concatenate(key)[order],
        texts=list(texts),
        quantities=columns,
    )


Inputs = Sequence[Argument | None]

_CODES = {name: code for code, name in TORCH_NAMES.items()}
_NUMBERS = {ScalarType.BOOL, ScalarType.INT, ScalarType.FLOAT, ScalarType.COMPLEX}
_NUMBER_LISTS = {ScalarType.BOOL_LIST, ScalarType.INT_LIST, ScalarType.FLOAT_LIST}


def plain_shapes(inputs: Inputs) -> list[list[int]]:
    """Shape of every tensor; ``[]`` for anything else, including lists of tensors."""
    return [list(a.sizes) if isinstance(a, TensorRecord) else [] for a in inputs]


def structured_shapes(inputs: Inputs) -> list[Any]:
    """:func:`plain_shapes`, but with a list of shapes for a list of tensors."""
    return [_each(a, lambda tensor: list(tensor.sizes)) for a in inputs]


def structured_strides(inputs: Inputs) -> list[Any]:
    """Strides in the form of :func:`structured_shapes`."""
    return [_each(a, lambda tensor: list(tensor.strides)) for a in inputs]


def type_names(inputs: Inputs) -> list[str]:
    """``float``, ``long int``, ``TensorList``, ``Scalar``, ``ScalarList``, or empty."""
    return [_type_name(a) for a in inputs]


def concrete_values(inputs: Inputs) -> list[Any]:
    """Numbers and lists of numbers as Python values; None for everything else."""
    shown = _NUMBERS | _NUMBER_LISTS
    return [a.value if isinstance(a, Scalar) and a.type in shown else None for a in inputs]


def keyword_values(keywords: dict[str, Argument]) -> dict[str, Any]:
    """Keyword arguments that are not tensors, as Python values."""
    return {name: a.value for name, a in keywords.items() if isinstance(a, Scalar)}


def _each(argument: Argument | None, value_of: Any) -> list[Any]:
    if isinstance(argument, TensorRecord):
        tensor: list[Any] = value_of(argument)
        return tensor
    return [value_of(tensor) for tensor in argument] if isinstance(argument, list) else []


def _type_name(argument: Argument | None) -> str:
    if isinstance(argument, TensorRecord):
        return CPP_NAMES.get(_CODES.get(argument.dtype, -1), "")
    if isinstance(argument, list):
        return "TensorList"
    if not isinstance(argument, Scalar):
        return ""
    if argument.type == ScalarType.TENSOR_LIST:
        return "TensorList"
    if argument.type in _NUMBER_LISTS:
        return "ScalarList"
    return "Scalar" if argument.type in _NUMBERS else ""
