"""When a device's memory was fullest, and which blocks were in use then."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.analysis.allocation_lives import AllocationLives, allocation_lives, allocation_rows
from opscope.analysis.devices import device_names
from opscope.trace.schema import AllocationAction
from opscope.trace.table import Table
from opscope.trace.trace import Trace

Values = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PeakMoment:
    """When a device was fullest.

    Attributes:
        device: as torch names it.
        rows: of ``allocations``, in order of time.
        lives: of all blocks on the device.
        time_ns: Unix time.
        position: of the row in ``rows`` after which it was fullest; -1 for the start.
        in_use: bytes.
        allocator_knows_all: whether its own total covers what was there before the recording.
    """

    device: str
    rows: Values
    lives: AllocationLives
    time_ns: int
    position: int
    in_use: int
    allocator_knows_all: bool


def find_peak(trace: Trace, device: str) -> PeakMoment:
    """When most was in use: by the allocator's total, and by what it never knew of."""
    rows, lives = allocation_rows(trace, device), allocation_lives(trace, device)
    time = trace.table("allocations")["time_ns"][rows]
    at_start, in_use, knows_all = _in_use(trace, rows, lives)
    if not len(rows) or in_use.max() <= at_start:
        start_ns = int(trace.metadata.get("start_ns", time[0] if len(rows) else 0))
        return PeakMoment(device, rows, lives, start_ns, -1, at_start, knows_all)
    at = int(np.argmax(in_use))
    return PeakMoment(device, rows, lives, int(time[at]), at, int(in_use[at]), knows_all)


def _in_use(trace: Trace, rows: Values, lives: AllocationLives) -> tuple[int, Values, bool]:
    """Bytes at the start and after every row, and whether the allocator's total is all there is.

    The allocator of the CPU only counts what it hands out while somebody listens.
    """
    table = trace.table("allocations")
    total = table["total_allocated_bytes"][rows].astype(np.int64)
    size = table["size_bytes"][rows]
    if not total.any():
        total = np.cumsum(size)
    counted = int(total[0]) - int(size[0]) if len(rows) else 0
    is_before = lives.start_ns < 0
    known = int(lives.size_bytes[is_before].sum())
    if counted >= known:
        return counted, total, True
    # Uncounted memory ends where its address is handed out again.
    gone = np.flatnonzero(is_before & (lives.free < 0) & (lives.end_ns >= 0))
    gone = gone[np.argsort(lives.end_ns[gone], kind="stable")]
    lost = np.concatenate([[0], np.cumsum(lives.size_bytes[gone])])
    lost = lost[np.searchsorted(lives.end_ns[gone], table["time_ns"][rows], side="right")]
    return known, total + (known - counted) - lost, False


def alive_at(peak: PeakMoment) -> Values:
    """Rows of ``peak.lives`` that were in use then, largest first."""
    lives = peak.lives
    place = np.full(int(peak.rows.max()) + 1 if len(peak.rows) else 1, -1, dtype=np.int64)
    place[peak.rows] = np.arange(len(peak.rows))
    made, freed = place[lives.allocation], place[lives.free]
    has_begun = np.where(
        lives.allocation >= 0, made <= peak.position, lives.start_ns < max(peak.time_ns, 0)
    )
    has_ended = np.where(
        lives.free >= 0,
        freed <= peak.position,
        (lives.end_ns >= 0) & (lives.end_ns <= peak.time_ns),
    )
    alive = np.flatnonzero(has_begun & ~has_ended)
    return alive[np.argsort(-lives.size_bytes[alive], kind="stable")]


def devices_with_memory(trace: Trace) -> list[str]:
    """Devices on which anything was allocated, freed or used."""
    tables = [trace.table(name) for name in ("allocations", "tensors")]
    kinds = np.concatenate([table["device_type"][_has_memory(table)] for table in tables])
    indices = np.concatenate([table["device_index"][_has_memory(table)] for table in tables])
    return device_names(kinds, indices)


def _has_memory(table: Table) -> npt.NDArray[np.bool_]:
    if table.schema.name == "allocations":
        is_known = table["action"] != AllocationAction.OUT_OF_MEMORY
        has_memory: npt.NDArray[np.bool_] = is_known & (table["size_bytes"] != 0)
    else:
        has_memory = (table["allocation_id"] >= 0) & (table["storage"] != 0)
    return has_memory
