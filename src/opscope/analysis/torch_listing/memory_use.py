"""How many bytes each event allocated, net of what it freed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.columns.codes import DeviceType
from opscope.columns.schema import AllocationAction
from opscope.timeline.listing import TorchListing
from opscope.timeline.tree.ancestry import subtree_sums

Values = npt.NDArray[np.int64]

CPU_TYPES = (DeviceType.CPU, DeviceType.MKLDNN, DeviceType.IDEEP)
"""Of host memory."""

DEVICE_TYPES = (DeviceType.CUDA, DeviceType.HIP, DeviceType.XPU, DeviceType.PrivateUse1)
"""Of accelerators that torch counts."""


@dataclass(frozen=True)
class MemoryUse:
    """Net bytes per event, shape (events,): total with everything inside it, and its own.

    Attributes:
        total_bytes: allocated minus freed during the event.
        self_bytes: that outside its listed children; 0 for asynchronous events.
    """

    total_bytes: Values
    self_bytes: Values


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
    own = np.bincount(event[counted], weights=size, minlength=events).astype(np.int64)
    total = subtree_sums(listing.tree.parent, own)
    return MemoryUse(total, listing.minus_children(total))


def allocation_bytes(listing: TorchListing, rows: Values, device_types: tuple[int, ...]) -> Values:
    """Size of the given allocations where they are on one group of devices and happened, else 0."""
    table = listing.trace.table("allocations")
    on_device = np.isin(table["device_type"][rows], device_types)
    on_device &= table["action"][rows] != AllocationAction.OUT_OF_MEMORY
    return np.where(on_device, table["size_bytes"][rows], 0)
