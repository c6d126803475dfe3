"""Everything torch.profiler lists, in one order: events, memory, device work; their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
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


@dataclass(frozen=True)
class MemoryUse:
    """Net bytes per event, shape (events,): total with everything inside it, and its own."""

    total_bytes: Values  # allocated minus freed during the event
    self_bytes: Values  # part of it outside its listed children; 0 for asynchronous events


def measure_memory(listing: TorchListing, device_types: tuple[int, ...]) -> MemoryUse:
    """Memory of one group of devices, :data:`CPU_TYPES` or :data:`DEVICE_TYPES`, per event."""
    table = listing.trace.table("allocations")
    event = listing.trace.table("allocations")["event"]
    counted = np.isin(table["device_type"], device_types) & (event >= 0)
    counted &= table["action"] != AllocationAction.OUT_OF_MEMORY
    events = len(listing.trace.events)
    if not counted.any():
        nothing = np.zeros(events, dtype=np.int64)
        return MemoryUse(nothing, nothing)
    size = table["size_bytes"][counted]
    own = group_sums(size, event[counted], events)
    total = subtree_sums(listing.tree.parent, own)
    return MemoryUse(total, listing.minus_children(total))


def allocation_bytes(listing: TorchListing, rows: Values, device_types: tuple[int, ...]) -> Values:
    """Size of the given allocations on one group of devices; 0 for others and failed ones."""
    table = listing.trace.table("allocations")
    on_device = np.isin(table["device_type"][rows], device_types)
    on_device &= table["action"][rows] != AllocationAction.OUT_OF_MEMORY
    return np.where(on_device, table["size_bytes"][rows], 0)


Labels = npt.NDArray[np.signedinteger[Any]]


class RowSource(IntEnum):
    """Table of a listed row."""

    EVENT = 0
    ALLOCATION = 1
    GPU = 2


@dataclass(frozen=True)
class Quantities:
    """Values to sum over rows. Arrays of equal length; None if all are zero.

    Times are nanoseconds, memory is net bytes; "self" excludes listed children.
    """

    cpu_total_ns: Values | None = None
    cpu_self_ns: Values | None = None
    device_total_ns: Values | None = None
    device_self_ns: Values | None = None
    cpu_memory_bytes: Values | None = None
    cpu_self_memory_bytes: Values | None = None
    device_memory_bytes: Values | None = None
    device_self_memory_bytes: Values | None = None
    flops: Values | None = None


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
            memory = measure_memory(listing, types)
            columns[f"{prefix}memory_bytes"] = listing.counted(memory.total_bytes)
            columns[f"{prefix}self_memory_bytes"] = memory.self_bytes
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
    return ListedRows(source, rows, label, key, listing.group_texts, Quantities(**columns))


def _memory(listing: TorchListing, rows: Values) -> ListedRows:
    table = listing.trace.table("allocations")
    label = (table["action"][rows] == AllocationAction.OUT_OF_MEMORY).astype(np.int64)
    on_cpu = allocation_bytes(listing, rows, CPU_TYPES)
    on_device = allocation_bytes(listing, rows, DEVICE_TYPES)
    quantities = Quantities(
        cpu_memory_bytes=on_cpu,
        cpu_self_memory_bytes=on_cpu,
        device_memory_bytes=on_device,
        device_self_memory_bytes=on_device,
    )
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
    quantities = Quantities(device_total_ns=duration, device_self_ns=duration)
    return ListedRows(source, rows, label, key, texts, quantities)


def _merge(parts: list[ListedRows], start: Values) -> ListedRows:
    order = np.argsort(start, kind="stable")
    texts: dict[str, int] = {}
    label, key = [], []
    for part in parts:
        number = np.array([texts.setdefault(t, len(texts)) for t in part.texts], dtype=np.int64)
        label.append(number[part.label])
        key.append(label[-1] * 4 + part.key % 4)
    columns = {
        field.name: _joined([getattr(part.quantities, field.name) for part in parts], parts, order)
        for field in fields(Quantities)
    }
    return ListedRows(
        source=np.concatenate([part.source for part in parts])[order],
        row=np.concatenate([part.row for part in parts])[order],
        label=np.concatenate(label)[order],
        key=np.concatenate(key)[order],
        texts=list(texts),
        quantities=Quantities(**columns),
    )


def _joined(columns: list[Values | None], parts: list[ListedRows], order: Values) -> Values | None:
    if all(column is None for column in columns):
        return None
    filled = [
        np.zeros(len(part), dtype=np.int64) if column is None else column
        for column, part in zip(columns, parts, strict=True)
    ]
    return np.concatenate(filled)[order]


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
