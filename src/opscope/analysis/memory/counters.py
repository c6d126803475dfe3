"""Bytes in use over time, device by device, from the allocations of a trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opscope.columns.labels import device_name
from opscope.columns.schema import AllocationAction
from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError
from opscope.timeline.arrays import Values
from opscope.timeline.detail import in_detail


def memory_was_recorded(trace: TraceData) -> bool:
    """Whether allocations and frees were recorded, even if there were none."""
    options = trace.metadata.get("options")
    wanted = isinstance(options, dict) and options.get("memory") is True
    return wanted or len(trace.table("allocations")) > 0


def where_recorded(trace: TraceData) -> TraceData:
    """The trace, or its part with recorded allocations."""
    return trace if trace.metadata.get("options", {}).get("memory") else in_detail(trace)


def check_memory_recorded(trace: TraceData) -> None:
    """Raise UsageError unless memory was recorded."""
    if not memory_was_recorded(trace):
        raise UsageError(
            "Memory was not recorded. Record with profile_memory=True (opscope run --memory)."
        )


@dataclass(frozen=True)
class MemoryCounter:
    """Memory of one device over time."""

    device: str  # ``cpu``, ``cuda:0``
    rows: Values  # rows of ``allocations`` in order of time, without failed ones
    time_ns: Values  # Unix time of each, shape (rows,)
    allocated_bytes: Values  # in use after each, shape (rows,)
    reserved_bytes: Values  # reserved by the allocator after each; empty without a pool


def memory_counters(trace: TraceData) -> list[MemoryCounter]:
    """One counter per device that allocated or freed memory.

    Totals are the allocator's; if it reported none, sums of the recorded sizes.
    """
    table = trace.table("allocations")
    rows = np.flatnonzero(table["action"] != AllocationAction.OUT_OF_MEMORY)
    rows = rows[np.argsort(table["time_ns"][rows], kind="stable")]
    device = table["device_type"].astype(np.int64)[rows] * 256 + table["device_index"][rows]
    return [_counter(trace, rows[device == key]) for key in np.unique(device)]


def _counter(trace: TraceData, rows: Values) -> MemoryCounter:
    table = trace.table("allocations")
    allocated = table["total_allocated_bytes"][rows]
    if not allocated.any():
        allocated = np.cumsum(table["size_bytes"][rows])
    reserved = table["total_reserved_bytes"][rows]
    return MemoryCounter(
        device=device_name(int(table["device_type"][rows[0]]), int(table["device_index"][rows[0]])),
        rows=rows,
        time_ns=table["time_ns"][rows],
        allocated_bytes=allocated.astype(np.int64),
        reserved_bytes=reserved.astype(np.int64) if reserved.any() else reserved[:0],
    )


@dataclass(frozen=True)
class ReservedMemory:
    """The memory of one device.

    Attributes:
        device: ``cuda:0``.
        peak_used_bytes: peak of the memory used by tensors.
        peak_reserved_bytes: peak of the memory reserved by the allocator; -1 if unknown.
        used_then_bytes: used memory at the peak of the reserved memory; -1 if unknown.
        unused_share: mean share of the reserved memory that is not used; -1 if unknown.
    """

    device: str
    peak_used_bytes: int
    peak_reserved_bytes: int
    used_then_bytes: int
    unused_share: float


def memory_of(trace: TraceData) -> tuple[ReservedMemory, ...]:
    """Memory of each device that allocated any, except the CPU."""
    return tuple(_use(one) for one in memory_counters(trace) if not one.device.startswith("cpu"))


def _use(counter: MemoryCounter) -> ReservedMemory:
    device, used, reserved = counter.device, counter.allocated_bytes, counter.reserved_bytes
    peak = int(used.max(initial=0))
    if not len(reserved):
        return ReservedMemory(device, peak, -1, -1, -1.0)
    fullest = int(np.argmax(reserved))
    lasted = np.append(np.diff(counter.time_ns), 0).astype(np.float64)
    held = float((reserved * lasted).sum())
    unused = 1 - float((used * lasted).sum()) / held if held else 1 - used[-1] / reserved[-1]
    return ReservedMemory(device, peak, int(reserved[fullest]), int(used[fullest]), float(unused))
