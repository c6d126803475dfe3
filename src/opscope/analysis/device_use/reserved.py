"""What torch's allocator had reserved of a device's memory, and how much of that was in use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opscope.analysis.memory.counters import MemoryCounter, memory_counters
from opscope.columns.labels import device_name
from opscope.columns.trace_data import TraceData

_CPU = 0


@dataclass(frozen=True)
class ReservedMemory:
    """The memory of one device.

    Attributes:
        device: ``cuda:0``.
        peak_used_bytes: in use by tensors, at most.
        peak_reserved_bytes: held by the allocator, at most; -1 where it reported none.
        used_then_bytes: in use when most was reserved; -1 likewise.
        unused_share: of what was reserved, what was not in use on average over time; -1 likewise.
    """

    device: str
    peak_used_bytes: int
    peak_reserved_bytes: int
    used_then_bytes: int
    unused_share: float


def memory_of(trace: TraceData) -> tuple[ReservedMemory, ...]:
    """One for each device but the processor that allocated anything."""
    table = trace.table("allocations")
    return tuple(
        _use(counter, device_name(int(table["device_type"][row]), int(table["device_index"][row])))
        for counter in memory_counters(trace)
        if int(table["device_type"][row := int(counter.rows[0])]) != _CPU
    )


def _use(counter: MemoryCounter, device: str) -> ReservedMemory:
    used, reserved = counter.allocated_bytes, counter.reserved_bytes
    peak = int(used.max(initial=0))
    if not len(reserved):
        return ReservedMemory(device, peak, -1, -1, -1.0)
    fullest = int(np.argmax(reserved))
    lasted = np.append(np.diff(counter.time_ns), 0).astype(np.float64)
    held = float((reserved * lasted).sum())
    unused = 1 - float((used * lasted).sum()) / held if held else 1 - used[-1] / reserved[-1]
    return ReservedMemory(device, peak, int(reserved[fullest]), int(used[fullest]), float(unused))
