"""What happened to every block of memory over time, and how much each category held."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.columns.codes import MemoryAction, MemoryCategory
from opscope.columns.labels import device_names, rows_on_device
from opscope.errors import UsageError

Values = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

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
"""In the order in which torch's memory timelines list them."""

_COLUMN = np.argsort(np.array(SHOWN_CATEGORIES))


@dataclass(frozen=True)
class MemoryTimeline:
    """Actions in order of time; all arrays have shape (actions,).

    Attributes:
        time_ns: Unix time; -1 for what was there before the recording.
        action: ``Action``.
        block: row of ``MemoryBlocks``; -1 for memory that no recorded tensor used.
        version: of the block, before the action.
        size_bytes: of the block.
        category: ``Category`` of that version; 0 unknown.
        category_after: of the version after an INCREMENT_VERSION, else as ``category``.
        device_type: c10::DeviceType.
        device_index: -1 for the CPU.
    """

    time_ns: Values
    action: npt.NDArray[np.uint8]
    block: Rows
    version: Rows
    size_bytes: Values
    category: npt.NDArray[np.uint8]
    category_after: npt.NDArray[np.uint8]
    device_type: npt.NDArray[np.int8]
    device_index: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.time_ns)

    @property
    def devices(self) -> list[str]:
        """Devices that any action is on, as torch names them."""
        return device_names(self.device_type, self.device_index)

    def on(self, device: str) -> MemoryTimeline:
        """The actions on one device, such as ``cpu`` or ``cuda:0``; ``cuda`` means its first.

        Raises:
            UsageError: nothing happened there.
        """
        wanted = rows_on_device(self.device_type, self.device_index, device)
        if not wanted.any():
            seen = ", ".join(self.devices) or "no device at all"
            raise UsageError(
                f"The recording has no memory events on {device!r}, but on: {seen}. Name one of "
                "these, or record a program that allocates memory there."
            )
        return MemoryTimeline(**{name: column[wanted] for name, column in vars(self).items()})


@dataclass(frozen=True)
class SizesByCategory:
    """Memory in use over time on one device.

    Attributes:
        time_us: Unix microseconds, shape (times,); the first is that of the first action also for
            what was there before.
        size_bytes: held by each of :data:`SHOWN_CATEGORIES`, shape (times, 8).
    """

    time_us: list[int]
    size_bytes: Values


def sizes_by_category(timeline: MemoryTimeline) -> SizesByCategory:
    """Add up a timeline (of one device) by microsecond and category."""
    if not len(timeline):
        return SizesByCategory([], np.zeros((0, len(SHOWN_CATEGORIES)), dtype=np.int64))
    times_ns, group = np.unique(timeline.time_ns, return_inverse=True)
    # Divided as torch does it: in floating point, which rounds some times up.
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
