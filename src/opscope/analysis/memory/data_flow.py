"""Blocks of memory, what was done with them when, and what every category held."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.columns.codes import MemoryAction, MemoryCategory
from opscope.columns.labels import device_names, rows_on_device
from opscope.errors import UsageError
from opscope.timeline.arrays import Rows, Values


@dataclass(frozen=True)
class MemoryBlocks:
    """Every block that an operator, a module or an optimizer used, in order of ids."""

    tensor_id: Values  # id of its tensor, shape (blocks,)
    allocation_id: Values  # id of its allocation
    device_type: npt.NDArray[np.int8]  # c10::DeviceType
    device_index: npt.NDArray[np.int8]  # -1 for the CPU
    size_bytes: Values  # size of the allocation or, if unknown, the extent of its tensors
    tensor: Rows  # consecutive number of the tensor: blocks of one tensor share it
    of_tensor: Rows  # block of every row of ``tensors``, -1 if not an input of an operator
    of_allocation: Rows  # block of every row of ``allocations``, -1 for none
    of_parameter: Rows  # block of every row of ``parameters``, -1 for none

    def __len__(self) -> int:
        return len(self.tensor_id)


BEFORE_RECORDING = -1

Category = MemoryCategory
Action = MemoryAction

SHOWN_CATEGORIES = (
    Category.PARAMETER,
    Category.OPTIMIZER_STATE,
    Category.INPUT,
    Category.TEMPORARY,
    Category.ACTIVATION,
    Category.GRADIENT,
    Category.AUTOGRAD_DETAIL,
    Category.UNKNOWN,
)
"""Categories in the order of torch's memory timelines."""

_COLUMN = np.argsort(np.array(SHOWN_CATEGORIES))


@dataclass(frozen=True)
class MemoryTimeline:
    """Actions in order of time; all arrays have shape (actions,)."""

    time_ns: Values  # Unix time; -1 if it existed before the recording
    action: npt.NDArray[np.uint8]  # ``Action``
    block: Rows  # row of ``MemoryBlocks``; -1 for memory without a recorded tensor
    version: Rows  # version of the block before the action
    size_bytes: Values  # size of the block
    category: npt.NDArray[np.uint8]  # ``Category`` of that version; 0 unknown
    category_after: npt.NDArray[np.uint8]  # differs only for INCREMENT_VERSION
    device_type: npt.NDArray[np.int8]  # c10::DeviceType
    device_index: npt.NDArray[np.int8]  # -1 for the CPU

    def __len__(self) -> int:
        return len(self.time_ns)

    @property
    def devices(self) -> list[str]:
        """Devices of the actions, by torch's names."""
        return device_names(self.device_type, self.device_index)

    def on(self, device: str) -> MemoryTimeline:
        """Actions on one device, such as ``cpu`` or ``cuda:0``; ``cuda`` means its first."""
        is_on_device = rows_on_device(self.device_type, self.device_index, device)
        if not is_on_device.any():
            seen = ", ".join(self.devices) or "no device at all"
            raise UsageError(
                f"The recording has no memory events on {device!r}, but on: {seen}. Name one of "
                "these, or record a program that allocates memory there."
            )
        return MemoryTimeline(**{name: column[is_on_device] for name, column in vars(self).items()})


@dataclass(frozen=True)
class SizesByCategory:
    """Memory in use over time on one device."""

    time_us: list[int]  # Unix microseconds, shape (times,); earlier memory has the first
    size_bytes: Values  # bytes of each of :data:`SHOWN_CATEGORIES`, shape (times, 8)


def sizes_by_category(timeline: MemoryTimeline) -> SizesByCategory:
    """Sum a timeline (of one device) by microsecond and category."""
    if not len(timeline):
        return SizesByCategory([], np.zeros((0, len(SHOWN_CATEGORIES)), dtype=np.int64))
    times_ns, group = np.unique(timeline.time_ns, return_inverse=True)
    # Divided as in torch, in floating point, which rounds some times up.
    exact_us = np.array([t if t == BEFORE_RECORDING else int(t / 1000) for t in times_ns.tolist()])
    times_us, merged = np.unique(exact_us, return_inverse=True)
    rows = merged[group]
    column, column_after = _COLUMN[timeline.category], _COLUMN[timeline.category_after]
    added = np.where(timeline.action <= Action.CREATE, timeline.size_bytes, -timeline.size_bytes)
    sizes = np.zeros((len(times_us), len(SHOWN_CATEGORIES)), dtype=np.int64)
    np.add.at(sizes, (rows, column), added)
    changed = timeline.action == Action.INCREMENT_VERSION
    np.add.at(sizes, (rows[changed], column_after[changed]), timeline.size_bytes[changed])
    after_start = times_us[times_us >= 0]
    first = int(after_start[0]) if len(after_start) else BEFORE_RECORDING
    shown = [first if t < 0 else t for t in times_us.tolist()]
    return SizesByCategory(shown, np.cumsum(sizes, axis=0))
