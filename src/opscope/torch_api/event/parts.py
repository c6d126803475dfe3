"""Small types in an event, with torch's attributes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from opscope.columns.codes import DeviceType as DeviceType

if TYPE_CHECKING:
    from opscope.analysis.torch_listing.rows import Quantities

EXPOSES_METADATA = "exposes_metadata"  # key in a trace's metadata
SUMS = {
    "cpu_time_total": ("cpu_total_ns", 1000),
    "self_cpu_time_total": ("cpu_self_ns", 1000),
    "device_time_total": ("device_total_ns", 1000),
    "self_device_time_total": ("device_self_ns", 1000),
    "cpu_memory_usage": ("cpu_memory_bytes", 1),
    "self_cpu_memory_usage": ("cpu_self_memory_bytes", 1),
    "device_memory_usage": ("device_memory_bytes", 1),
    "self_device_memory_usage": ("device_self_memory_bytes", 1),
    "flops": ("flops", 1),
}
"""Column of ``Quantities``, and its units per unit of torch, by torch's attribute."""


def sums_in_torch_units(quantities: Quantities, count: int) -> dict[str, npt.NDArray[Any]]:
    """Each of ``SUMS`` for ``count`` rows: microseconds (float64), bytes and operations (int64)."""
    sums = {}
    for name, (column, units) in SUMS.items():
        values = quantities.get(column)
        values = np.zeros(count, dtype=np.int64) if values is None else values
        sums[name] = values / units if units > 1 else values
    return sums


class Interval:
    """From ``start`` to ``end``, microseconds after the begin of the recording."""

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """Length in microseconds."""
        return self.end - self.start


class Kernel(NamedTuple):
    """Device work that an operator launched; ``duration`` in microseconds."""

    name: str
    device: int
    duration: float


def device_type(code: int) -> Any:
    """The device type with this value.

    This does not import torch, which takes over a second: a user of torch's enum has imported it.
    """
    torch = sys.modules.get("torch")
    enum = getattr(getattr(torch, "autograd", None), "DeviceType", DeviceType)
    return _member(enum, code)


@cache
def _member(enum: Any, code: int) -> Any:
    return getattr(enum, DeviceType(code).name, DeviceType(code))


def is_cpu(value: Any) -> bool:
    """Whether a device type, of either enum, is the CPU."""
    return getattr(value, "name", None) == "CPU"


class EventMetadata(NamedTuple):
    """Fields of kernels, copies and collectives; None if unknown."""

    registers_per_thread: int | None = None
    shared_memory: int | None = None
    grid: list[int] | None = None
    block: list[int] | None = None
    priority: int | None = None
    blocks_per_sm: float | None = None
    warps_per_sm: float | None = None
    occupancy: dict[str, Any] | None = None
    est_occupancy_pct: float | None = None
    queued: int | None = None
    graph_id: int | None = None
    graph_node_id: int | None = None
    stream: int | None = None
    context: int | None = None
    channel: int | None = None
    channel_type: int | None = None
    hsa_queue: int | None = None
    bytes: int | None = None
    bandwidth_gb_s: float | None = None
    collective_name: str | None = None
    dtype: str | None = None
    in_msg_nelems: int | None = None
    out_msg_nelems: int | None = None
    in_split_size: str | None = None
    out_split_size: str | None = None
    global_rank_start: int | None = None
    global_rank_stride: int | None = None
    group_size: int | None = None
    process_group_name: str | None = None
    process_group_desc: str | None = None
    group_ranks: str | None = None
    rank: int | None = None
    src_rank: int | None = None
    dst_rank: int | None = None
    seq: int | None = None
    is_async: bool | None = None


def metadata_from_kineto(extra: Mapping[str, str]) -> EventMetadata | None:
    """Fields from Kineto's texts; None without any."""
    fields = {}
    for key, text in extra.items():
        field = _RENAMED.get(key) or key.lower().replace(" ", "_")
        if field in EventMetadata._fields and text is not None:
            fields[field] = _CONVERSIONS.get(field, int)(text)
    return EventMetadata(**fields) if fields else None


_RENAMED = {
    "est. achieved occupancy %": "est_occupancy_pct",
    "memory bandwidth (GB/s)": "bandwidth_gb_s",
    "Process Group Description": "process_group_desc",
    "Process Group Ranks": "group_ranks",
    "Is asynchronized op": "is_async",
}
"""Fields that are not their key in lower case."""

_TEXTS = (
    "collective_name", "dtype", "in_split_size", "out_split_size",
    "process_group_name", "process_group_desc", "group_ranks",
)  # fmt: skip
_FLOATS = "blocks_per_sm", "warps_per_sm", "est_occupancy_pct", "bandwidth_gb_s"  # may be inf

_CONVERSIONS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(_TEXTS, lambda text: text.strip('"')),
    **dict.fromkeys(_FLOATS, float),
    **dict.fromkeys(("grid", "block", "occupancy"), json.loads),
    "is_async": lambda text: text in ("1", "true"),
}
