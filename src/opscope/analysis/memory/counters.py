"""Bytes in use over time, device by device, from the allocations of a trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.columns.schema import AllocationAction
from opscope.columns.trace_data import TraceData

_DEVICE_NAMES = {0: "CPU", 1: "CUDA", 6: "HIP", 9: "XLA", 12: "XPU", 13: "MPS", 20: "device"}


@dataclass(frozen=True)
class MemoryCounter:
    """One device.

    Attributes:
        device: as shown, such as ``CPU`` or ``CUDA 0``.
        rows: rows of ``allocations`` in order of time, failed ones left out.
        time_ns: Unix time of each, shape (rows,).
        allocated_bytes: in use after each, shape (rows,).
        reserved_bytes: held by the allocator's pool after each; empty where there is no pool.
    """

    device: str
    rows: npt.NDArray[np.int64]
    time_ns: npt.NDArray[np.int64]
    allocated_bytes: npt.NDArray[np.int64]
    reserved_bytes: npt.NDArray[np.int64]


def memory_counters(trace: TraceData) -> list[MemoryCounter]:
    """One counter per device that allocated or freed anything.

    Totals are the allocator's own; where it reported none, the sum of what was recorded.
    """
    table = trace.table("allocations")
    rows = np.flatnonzero(table["action"] != AllocationAction.OUT_OF_MEMORY)
    rows = rows[np.argsort(table["time_ns"][rows], kind="stable")]
    device = table["device_type"].astype(np.int64)[rows] * 256 + table["device_index"][rows]
    return [_counter(trace, rows[device == key], int(key)) for key in np.unique(device)]


def _counter(trace: TraceData, rows: npt.NDArray[np.int64], key: int) -> MemoryCounter:
    table = trace.table("allocations")
    allocated = table["total_allocated_bytes"][rows]
    if not allocated.any():
        allocated = np.cumsum(table["size_bytes"][rows])
    reserved = table["total_reserved_bytes"][rows]
    index = int(table["device_index"][rows[0]])
    name = _DEVICE_NAMES.get(int(table["device_type"][rows[0]]), "device")
    return MemoryCounter(
        device=name if index < 0 else f"{name} {index}",
        rows=rows,
        time_ns=table["time_ns"][rows],
        allocated_bytes=allocated.astype(np.int64),
        reserved_bytes=reserved.astype(np.int64) if reserved.any() else reserved[:0],
    )
