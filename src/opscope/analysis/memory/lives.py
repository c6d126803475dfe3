"""Lifetimes of memory blocks on a device, and the time of the peak.

A recording that starts late lacks earlier allocations. A block that is freed or used without a
recorded allocation existed before. Memory that torch's allocator did not allocate, such as a NumPy
array, looks the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.columns.codes import ParameterRole
from opscope.columns.dtypes import ITEM_SIZES
from opscope.columns.labels import device_names, rows_on_device
from opscope.columns.row_groups import order_rows
from opscope.columns.schema import AllocationAction, Role
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Flags, Values
from opscope.timeline.signatures import rows_of

NONE = -1
_FOREVER = np.iinfo(np.int64).max
_OUTPUTS = (Role.OUTPUT, Role.OUTPUT_PART)


@dataclass(frozen=True)
class AllocationLives:
    """One row per block of memory; arrays have shape (blocks,), times are Unix nanoseconds."""

    size_bytes: Values  # as allocated or freed or, if unknown, the extent of its tensors
    start_ns: Values  # time of the allocation; -1 before the recording
    end_ns: Values  # time of the free, or of the address's reuse; -1 not during the recording
    last_seen_ns: Values  # time of the last recorded use; -1 without one
    allocation: Values  # row of ``allocations`` that made it; -1 if not recorded
    free: Values  # row of ``allocations`` that freed it; -1 if not recorded
    allocation_id: Values  # as in ``allocations``; -1 unknown
    tensor_id: Values  # id of its tensor; -1 unknown

    def __len__(self) -> int:
        return len(self.size_bytes)


def allocation_lives(trace: TraceData, device: str) -> AllocationLives:
    """Blocks on ``device``: those allocated or freed in the recording, then those only used."""
    recorded, seen = _recorded(trace, device), _seen(trace, device)
    place = rows_of(seen["allocation_id"], recorded["allocation_id"])
    recorded["last_seen_ns"] = np.append(seen["last_ns"], NONE)[place]
    before = _seen_before(recorded, seen)
    columns = {name: np.concatenate([recorded[name], before[name]]) for name in before}
    return AllocationLives(**columns)


def allocation_rows(trace: TraceData, device: str) -> Values:
    """Rows of ``allocations`` on ``device`` in order of time, without failed allocations."""
    table = trace.table("allocations")
    rows = np.flatnonzero(
        rows_on_device(table["device_type"], table["device_index"], device)
        & (table["action"] != AllocationAction.OUT_OF_MEMORY)
    )
    return rows[np.argsort(table["time_ns"][rows], kind="stable")]


def _recorded(trace: TraceData, device: str) -> dict[str, Values]:
    table, rows = trace.table("allocations"), allocation_rows(trace, device)
    time, size = table["time_ns"][rows], table["size_bytes"][rows]
    before, after = _neighbours(table["address"][rows])
    # After another free, or without a previous row, a free's allocation was not recorded.
    opens = (size > 0) | (before < 0) | (size[before] <= 0)
    opens &= size != 0
    first = np.flatnonzero(opens)
    is_allocated = size[first] > 0
    ending = np.where(is_allocated, after[first], first)
    is_freed = (ending >= 0) & (size[ending] < 0)
    unseen_since = np.where(before[first] >= 0, time[before[first]], NONE)
    return {
        "size_bytes": np.abs(size[first]),
        "start_ns": np.where(is_allocated, time[first], unseen_since),
        "end_ns": np.where(ending >= 0, time[ending], NONE),
        "allocation": np.where(is_allocated, rows[first], NONE),
        "free": np.where(is_freed, rows[ending], NONE),
        "allocation_id": table["allocation_id"][rows[first]],
        "tensor_id": table["tensor_id"][rows[first]],
    }


def _neighbours(address: npt.NDArray[np.uint64]) -> tuple[Values, Values]:
    """Previous and next row at the same address for every row; -1 for none."""
    before = np.full(len(address), NONE, dtype=np.int64)
    after = np.full(len(address), NONE, dtype=np.int64)
    order = order_rows(address.view(np.int64))  # any order that groups equal ones
    first, second = order[:-1], order[1:]
    same = address[first] == address[second]
    after[first[same]], before[second[same]] = second[same], first[same]
    return before, after


def _seen(trace: TraceData, device: str) -> dict[str, Values]:
    """First and last time of use, and size, of each allocation id in use on ``device``."""
    parts = []
    for name in ("tensors", "parameters"):
        table = trace.table(name)
        chosen = rows_on_device(table["device_type"], table["device_index"], device)
        chosen &= (table["allocation_id"] >= 0) & (table["storage"] != 0)
        is_read_once = name == "parameters"
        if is_read_once:  # a gradient from before this part may be freed by then
            begin_ns = trace.events["start_ns"].min(initial=_FOREVER)
            is_old = (table["role"] == ParameterRole.GRADIENT) & (table["time_ns"] < begin_ns)
            chosen &= ~is_old
        rows = np.flatnonzero(chosen)
        time = table["time_ns"][rows] if is_read_once else _use_times(trace, table, rows)
        known_by = table["allocation_id"][rows], table["tensor_id"][rows]
        parts.append((*known_by, time, _spans(table, rows)))
    allocation, tensor, time, size = (np.concatenate(column) for column in zip(*parts, strict=True))
    ids, group = np.unique(allocation, return_inverse=True)
    uses: dict[str, Values] = {
        "allocation_id": ids.astype(np.int64),
        "tensor_id": np.full(len(ids), NONE, dtype=np.int64),
        "first_ns": np.full(len(ids), _FOREVER, dtype=np.int64),
        "last_ns": np.full(len(ids), NONE, dtype=np.int64),
        "size_bytes": np.zeros(len(ids), dtype=np.int64),
    }
    np.maximum.at(uses["tensor_id"], group, tensor)
    np.minimum.at(uses["first_ns"], group, time)
    np.maximum.at(uses["last_ns"], group, time)
    np.maximum.at(uses["size_bytes"], group, size)
    return uses


def _use_times(trace: TraceData, table: Table, rows: Values) -> Values:
    """Time of each tensor argument: the operator's end for results, its start for others."""
    events, event = trace.events, table["event"][rows]
    at_end = np.isin(table["role"][rows], _OUTPUTS)
    times: Values = events["start_ns"][event] + np.where(at_end, events["duration_ns"][event], 0)
    return times


def _spans(table: Table, rows: Values) -> Values:
    """Bytes from the start of each tensor's storage to its last element; 0 if it has no strides."""
    item = np.zeros(256, dtype=np.int64)
    item[list(ITEM_SIZES)] = list(ITEM_SIZES.values())
    sizes, strides = table.lists("sizes"), table.lists("strides")
    count = np.diff(sizes.offsets)[rows]
    has_strides = np.diff(strides.offsets)[rows] == count
    count = np.where(has_strides, count, 0)
    owner = np.repeat(np.arange(len(rows)), count)
    dimension = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    size = sizes.values[sizes.offsets[rows][owner] + dimension]
    stride = strides.values[strides.offsets[rows][owner] + dimension]
    last = np.zeros(len(rows), dtype=np.int64)
    np.add.at(last, owner, (size - 1) * stride)
    empty = np.zeros(len(rows), dtype=np.bool_)
    empty[owner[size <= 0]] = True
    if any(column.name == "storage_offset" for column in table.schema.columns):
        last = last + table["storage_offset"][rows]
    bytes_ = (last + 1) * item[table["dtype"][rows].astype(np.uint8)]
    return np.where(has_strides & ~empty, np.maximum(bytes_, 0), 0)


def _seen_before(recorded: dict[str, Values], seen: dict[str, Any]) -> dict[str, Values]:
    """Blocks in use before any recorded allocation with their id, and not known from a free."""
    allocated = recorded["allocation"] >= 0
    freed_only = recorded["allocation_id"][~allocated]
    first_made = np.full(len(seen["allocation_id"]), _FOREVER, dtype=np.int64)
    place = rows_of(seen["allocation_id"], recorded["allocation_id"])
    known = (place >= 0) & allocated
    np.minimum.at(first_made, place[known], recorded["start_ns"][known])
    was_there = (seen["first_ns"] < first_made) & ~np.isin(seen["allocation_id"], freed_only)
    was_there &= seen["size_bytes"] > 0
    count = int(was_there.sum())
    none = np.full(count, NONE, dtype=np.int64)
    reused = first_made[was_there]
    return {
        "size_bytes": seen["size_bytes"][was_there],
        "start_ns": none,
        "end_ns": np.where(reused == _FOREVER, NONE, reused),
        "last_seen_ns": np.minimum(seen["last_ns"][was_there], reused),
        "allocation": none,
        "free": none,
        "allocation_id": seen["allocation_id"][was_there],
        "tensor_id": seen["tensor_id"][was_there],
    }


@dataclass(frozen=True)
class PeakMoment:
    """The moment of peak memory on a device.

    Positions count the rows of ``allocations`` on the device in order of time; -1 is the start.
    """

    device: str  # torch's name
    lives: AllocationLives  # all blocks on the device
    begin: Values  # position at which each becomes used, shape (blocks,)
    end: Values  # position at which it is no longer used
    time_ns: int  # Unix time
    position: int  # last row before or at that time
    in_use: int  # bytes in use
    in_use_at: Values  # bytes in use at the start and after every row, shape (rows + 1,)
    row_time_ns: Values  # Unix time of the start and of every row, shape (rows + 1,)
    allocator_counts_all: bool  # whether the allocator's total has memory of before


def find_peak(trace: TraceData, device: str) -> PeakMoment:
    """Find the peak by the allocator's total or, if that is incomplete, by its blocks."""
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
        allocator_counts_all=knows_all,
    )


def _positions(rows: Values, time: Values, lives: AllocationLives) -> tuple[Values, Values]:
    """Positions at which each block becomes used and unused. Shape (blocks,) each."""
    place = np.full(int(rows.max()) + 1 if len(rows) else 1, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    # A block without a recorded allocation counts from the last event at its address.
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
    """Bytes in use by the allocator's total; None if it has none, or an unreliable one.

    The CPU allocator counts only while a profiler is active: memory that it allocated then and
    freed later stays in its total forever.
    """
    table = trace.table("allocations")
    total = table["total_allocated_bytes"][rows].astype(np.int64)
    if device == "cpu" or not total.any():
        return None
    return np.concatenate([[total[0] - int(table["size_bytes"][rows[0]])], total])


def alive_at(peak: PeakMoment) -> Values:
    """Rows of ``peak.lives`` in use at the peak, largest first."""
    alive = np.flatnonzero((peak.begin <= peak.position) & (peak.end > peak.position))
    return alive[np.argsort(-peak.lives.size_bytes[alive], kind="stable")]


def devices_with_memory(trace: TraceData) -> list[str]:
    """Devices with allocations, frees or uses."""
    tables = [trace.table(name) for name in ("allocations", "tensors")]
    kinds = np.concatenate([table["device_type"][_has_memory(table)] for table in tables])
    indices = np.concatenate([table["device_index"][_has_memory(table)] for table in tables])
    return device_names(kinds, indices)


def _has_memory(table: Table) -> Flags:
    if table.schema.name == "allocations":
        is_known = table["action"] != AllocationAction.OUT_OF_MEMORY
        has_memory: Flags = is_known & (table["size_bytes"] != 0)
    else:
        has_memory = (table["allocation_id"] >= 0) & (table["storage"] != 0)
    return has_memory
