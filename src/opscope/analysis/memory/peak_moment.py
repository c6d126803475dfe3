"""When a device's memory was fullest, and which blocks were in use then."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.analysis.memory.lives import AllocationLives, allocation_lives, allocation_rows
from opscope.columns.labels import device_names
from opscope.columns.schema import AllocationAction
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData

Values = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PeakMoment:
    """When a device was fullest.

    Positions count the rows of ``allocations`` on the device in order of time; -1 is the start.
    """

    device: str  # as torch names it
    lives: AllocationLives  # of all blocks on the device
    begin: Values  # position from which on each of them was in use, shape (blocks,)
    end: Values  # position from which on it no longer was
    time_ns: int  # Unix time
    position: int  # the last row that had happened then
    in_use: int  # bytes
    in_use_at: Values  # the same at the start and after every row, shape (rows + 1,)
    row_time_ns: Values  # Unix time of the start and of every row, shape (rows + 1,)
    allocator_knows_all: bool  # whether its own total covers what was there before the recording


def find_peak(trace: TraceData, device: str) -> PeakMoment:
    """When most was in use: by the allocator's total or, where that is wanting, by its blocks."""
    rows, lives = allocation_rows(trace, device), allocation_lives(trace, device)
    time = trace.table("allocations")["time_ns"][rows]
    begin, end = _positions(rows, time, lives)
    in_use = _from_blocks(len(rows), lives, begin, end)
    counted = _from_totals(trace, rows, device)
    knows_all = counted is not None and counted[0] >= in_use[0]
    if counted is not None and knows_all:
        in_use = counted
    position = int(np.argmax(in_use)) - 1
    start_ns = int(trace.metadata.get("start_ns", time[0] if len(rows) else 0))
    return PeakMoment(
        device=device,
        lives=lives,
        begin=begin,
        end=end,
        time_ns=int(time[position]) if position >= 0 else start_ns,
        position=position,
        in_use=int(in_use[position + 1]),
        in_use_at=in_use,
        row_time_ns=np.concatenate([[start_ns], np.maximum(time, start_ns)]),
        allocator_knows_all=knows_all,
    )


def _positions(rows: Values, time: Values, lives: AllocationLives) -> tuple[Values, Values]:
    """From where to where each block was in use. Shape (blocks,) each."""
    place = np.full(int(rows.max()) + 1 if len(rows) else 1, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    # A block whose allocation was not recorded counts from the last event at its address on.
    unseen = np.where(lives.start_ns < 0, -1, np.searchsorted(time, lives.start_ns, side="right"))
    begin = np.where(lives.allocation >= 0, place[lives.allocation], unseen)
    gone = np.where(lives.end_ns < 0, len(rows), np.searchsorted(time, lives.end_ns, side="left"))
    end = np.where(lives.free >= 0, place[lives.free], gone)
    return begin, end


def _from_blocks(rows: int, lives: AllocationLives, begin: Values, end: Values) -> Values:
    """Bytes in use at the start and after every row. Shape (rows + 1,)."""
    changes = np.zeros(rows + 2, dtype=np.int64)
    np.add.at(changes, np.minimum(begin + 1, rows + 1), lives.size_bytes)
    np.subtract.at(changes, np.minimum(end + 1, rows + 1), lives.size_bytes)
    in_use: Values = np.cumsum(changes)[:-1]
    return in_use


def _from_totals(trace: TraceData, rows: Values, device: str) -> Values | None:
    """The same by the allocator's own total; None where it has none, or none to rely on.

    The allocator of the CPU counts only while somebody listens: what it handed out then and took
    back since stays in its total for good.
    """
    table = trace.table("allocations")
    total = table["total_allocated_bytes"][rows].astype(np.int64)
    if device == "cpu" or not total.any():
        return None
    return np.concatenate([[total[0] - int(table["size_bytes"][rows[0]])], total])


def alive_at(peak: PeakMoment) -> Values:
    """Rows of ``peak.lives`` that were in use then, largest first."""
    alive = np.flatnonzero((peak.begin <= peak.position) & (peak.end > peak.position))
    return alive[np.argsort(-peak.lives.size_bytes[alive], kind="stable")]


def devices_with_memory(trace: TraceData) -> list[str]:
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
