"""Analysis of torch's memory snapshots: peak by line, memory over time, remaining memory, gaps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from opscope.analysis.memory.life_categories import PeakGroup, group_blocks
from opscope.base.program_files import is_library
from opscope.base.quantity_text import bytes_text
from opscope.base.shown_result import ShownResult
from opscope.columns.location import Location
from opscope.errors import UsageError
from opscope.storage.snapshot import DeviceSnapshot, MemorySnapshot
from opscope.timeline.arrays import Values

_LATEST = np.iinfo(np.int64).max
NO_STACK = "no stack recorded"
MOST_POINTS = 200


@dataclass(frozen=True, eq=False)
class SnapshotMemory(ShownResult):
    """Memory of one device, from its allocator's history.

    The history is a ring and may lack its beginning: a block that is freed or in use at the end
    without an allocation in it existed before.

    Attributes:
        device: torch's name.
        peak_bytes: maximum bytes in use, as requested.
        peak_event: number of the allocation or free that reached it; -1 for the start.
        before_bytes: part of ``peak_bytes`` allocated before the history begins.
        at_peak: bytes at the peak by line of the program, largest first.
        at_end: bytes in use at the end by line, largest first.
        stacks: the peak by stack, as ``PeakMemory.by_stack``.
        end_bytes: total bytes in use at the end.
        in_use_bytes: bytes in use after every allocation and free. Shape (events,).
        time_us: their times since the first; those of an earlier event where unknown or in
            disorder. Shape (events,).
        reserved_bytes: device memory that the allocator holds at the end.
        free_bytes: unused part of it.
        largest_free_bytes: its largest piece: a larger allocation needs more of the device.
        unmatched: frees of memory neither allocated in the history nor before it.
        failed: allocations that failed for lack of memory.
    """

    device: str
    peak_bytes: int
    peak_event: int
    before_bytes: int
    at_peak: tuple[PeakGroup, ...]
    at_end: tuple[PeakGroup, ...]
    stacks: tuple[PeakGroup, ...]
    end_bytes: int
    in_use_bytes: Values
    time_us: Values
    reserved_bytes: int
    free_bytes: int
    largest_free_bytes: int
    unmatched: int
    failed: int

    def __repr__(self) -> str:
        return f"<SnapshotMemory of {self.device}: {bytes_text(self.peak_bytes)} at its peak>"

    def timeline(self) -> list[dict[str, int]]:
        """At most 200 points; each is the maximum of its stretch."""
        events = len(self.in_use_bytes)
        edges = np.unique(np.linspace(0, events, MOST_POINTS + 1).astype(np.int64))
        points = []
        for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            at = begin + int(np.argmax(self.in_use_bytes[begin:end]))
            point = {"time_us": int(self.time_us[at]), "bytes": int(self.in_use_bytes[at])}
            points.append(point)
        return points

    def as_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        left_out = ("in_use_bytes", "time_us", "at_peak", "at_end", "stacks")
        return {
            **{name: value for name, value in vars(self).items() if name not in left_out},
            "at_peak": [asdict(group) for group in self.at_peak],
            "at_end": [asdict(group) for group in self.at_end],
            "timeline": self.timeline(),
        }


def snapshot_memory(snapshot: MemorySnapshot, device: str | None = None) -> SnapshotMemory:
    """Memory of a device of a snapshot, by default the one with the highest peak.

    Raises:
        UsageError: the snapshot has no such device.
    """
    names = {f"cuda:{one.index}": one for one in snapshot.devices}
    if device is not None and device not in names:
        raise UsageError(
            f"The snapshot has nothing of {device!r}. Choose from: {', '.join(names)}."
        )
    chosen = names if device is None else {device: names[device]}
    found = [_memory(snapshot, name, one) for name, one in chosen.items()]
    return max(found, key=lambda one: one.peak_bytes)


def _memory(snapshot: MemorySnapshot, name: str, history: DeviceSnapshot) -> SnapshotMemory:
    begin, end, size, stack, unmatched = _lives(history)
    events = len(history.is_free)
    change = np.zeros(events + 1, dtype=np.int64)  # the first is memory from before
    np.add.at(change, begin + 1, size)
    ended = end < _LATEST
    np.subtract.at(change, end[ended] + 1, size[ended])
    in_use = np.cumsum(change)
    peak = int(np.argmax(in_use))
    at_peak = np.flatnonzero((begin + 1 <= peak) & (end > peak - 1))
    at_end = np.flatnonzero(~ended)
    is_known = history.time_us >= 0
    first = int(history.time_us[is_known][0]) if is_known.any() else 0
    time_us = np.maximum.accumulate(np.where(is_known, np.maximum(history.time_us, first), first))

    def groups(rows: Values, name_of: Callable[[Any], str] = _place) -> tuple[PeakGroup, ...]:
        stacks, of_row = np.unique(stack[rows], return_inverse=True)
        names = [name_of(snapshot.frames(one)) for one in stacks.tolist()]
        named = [names[one] for one in of_row.reshape(-1).tolist()]
        return group_blocks(named, size[rows], begin[rows] < 0, unseen_bytes=0)

    return SnapshotMemory(
        device=name,
        peak_bytes=int(in_use[peak]),
        peak_event=peak - 1,
        before_bytes=int(size[at_peak][begin[at_peak] < 0].sum()),
        at_peak=groups(at_peak),
        at_end=groups(at_end),
        stacks=groups(at_peak, _path),
        end_bytes=int(size[at_end].sum()),
        in_use_bytes=in_use[1:],
        time_us=time_us - first,
        reserved_bytes=history.reserved_bytes,
        free_bytes=int(history.free_bytes.sum()),
        largest_free_bytes=int(history.free_bytes.max(initial=0)),
        unmatched=unmatched,
        failed=history.others.get("oom", 0),
    )


def _lives(history: DeviceSnapshot) -> tuple[Values, Values, Values, Values, int]:
    """First and last event of every block, its size and stack; and the frees without a block.

    A first event of -1 is before the history; the largest number as last event means none.
    """
    events = len(history.is_free)
    order = np.lexsort((np.arange(events), history.address))
    address, is_free = history.address[order], history.is_free[order]
    same = np.append(address[1:] == address[:-1], False) if events else np.zeros(0, np.bool_)
    is_first = ~np.concatenate([np.zeros(min(events, 1), np.bool_), same[:-1]])
    following = np.append(order[1:], 0) if events else order
    begun = np.flatnonzero(~is_free)  # in order of addresses
    begin = order[begun]
    end = np.where(same[begun], following[begun], _LATEST)
    freed = np.flatnonzero(is_free & is_first)
    after_free = is_free & ~is_first
    after_free[1:] &= is_free[:-1]
    before = order[freed]
    remaining = ~np.isin(history.block_address, history.address)
    size = history.size_bytes
    return (
        _joined(begin, np.full(len(before) + int(remaining.sum()), -1)),
        _joined(end, before, np.full(int(remaining.sum()), _LATEST)),
        _joined(size[begin], size[before], history.block_bytes[remaining]),
        _joined(history.stack[begin], np.full(len(before), -1), history.block_stack[remaining]),
        int(after_free.sum()),
    )


def _joined(*parts: Any) -> Values:
    return np.concatenate(parts).astype(np.int64)


def _path(frames: Iterable[Location]) -> str:
    """Frames, outermost first, separated by ``;``."""
    known = [f"{one} in {one.function}" if one.file else one.function for one in frames]
    return ";".join(reversed(known)) or NO_STACK


def _place(frames: Iterable[Location]) -> str:
    """Innermost line of the program, or of any code if there is none."""
    known = [one for one in frames if one.line > 0 and one.file not in ("", "??")]
    known = [one for one in known if not is_library(one.file)] or known or list(frames)
    if not known:
        return NO_STACK
    return f"{known[0]} in {known[0].function}" if known[0].file else known[0].function
