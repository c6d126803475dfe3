"""Which allocations and tensors share memory, found from all segments of a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.columns.codes import AllocationAction, Role
from opscope.columns.table import Table
from opscope.recording.segments import RecordingSegment

MOST = 4_000_000  # largest number of rows to match: each takes about 100 bytes of memory
_TABLES = ("tensors", "parameters", "allocations")
_OUTPUTS = (Role.OUTPUT, Role.OUTPUT_PART)


@dataclass(frozen=True)
class AllocationIds:
    """Allocation ids of the rows of all segments."""

    of: Mapping[tuple[str, Path], npt.NDArray[np.int64]]  # by table and folder of the segment
    unreported_frees: int  # allocations that ended without a free

    def added_to(self, table: Table, segment: RecordingSegment) -> Table:
        """A segment's table with its allocation ids."""
        ids = self.of.get((table.schema.name, segment.folder))
        return table if ids is None else table.replaced({"allocation_id": ids})


def can_match_frees(segments: Sequence[RecordingSegment]) -> bool:
    """Whether a recording is short enough for matching."""
    return sum(one.rows.get(name, 0) for one in segments for name in _TABLES) <= MOST


def allocation_ids(segments: Sequence[RecordingSegment]) -> AllocationIds:
    """Allocation ids of a recording with memory; empty if it is too long."""
    rows: list[tuple[tuple[str, Path], npt.NDArray[np.bool_]]] = []
    sightings: list[Sequence[npt.NDArray[Any]]] = []
    for name in _TABLES if can_match_frees(segments) else ():
        for segment in segments:
            if segment.rows.get(name):
                known, *columns = _sightings(segment.table(name), segment)
                rows.append(((name, segment.folder), known))
                sightings.append([column[known] for column in columns])
    if not rows:
        return AllocationIds({}, 0)
    ids, unheard = _native.allocation_ids(*map(np.concatenate, zip(*sightings, strict=True)))
    of, first = {}, 0
    for key, known in rows:
        of[key] = np.full(len(known), -1, dtype=np.int64)
        end = first + int(np.count_nonzero(known))
        of[key][known], first = ids[first:end], end
    return AllocationIds(of, unheard)


def _sightings(table: Table, segment: RecordingSegment) -> tuple[npt.NDArray[Any], ...]:
    """Columns by row: has a storage; time, tensor, address, device, is a free."""
    kind, index = (table[name].view(np.uint8) for name in ("device_type", "device_index"))
    device = kind.astype(np.uint16) << 8 | index
    if table.schema.name == "allocations":
        known = table["action"] != AllocationAction.OUT_OF_MEMORY
        no_tensor = np.zeros(len(table), dtype=np.uint64)
        return known, table["time_ns"], no_tensor, table["address"], device, table["size_bytes"] < 0
    impl, never = table["impl"], np.zeros(len(table), dtype=np.bool_)
    time_ns = _times(table, segment) if table.schema.name == "tensors" else table["time_ns"]
    return impl != 0, time_ns, impl, table["storage"], device, never


def _times(tensors: Table, segment: RecordingSegment) -> npt.NDArray[np.int64]:
    """Time of each tensor: an input at the start of its event, an output at the end."""
    events = segment.table("events")
    event = tensors["event"].astype(np.int64) - segment.first_event
    # Results of earlier segments' events: their time is the start of this segment.
    began_ns = events["start_ns"][0] if len(events) else segment.account()["end_ns"]
    time_ns = np.full(len(event), began_ns, dtype=np.int64)
    here = (event >= 0) & (event < len(events))
    is_output, event = np.isin(tensors["role"][here], _OUTPUTS), event[here]
    took = np.where(is_output, events["duration_ns"][event], 0)
    time_ns[here] = events["start_ns"][event] + took
    return time_ns
