"""Reader of torch's memory snapshots (``torch.cuda.memory._dump_snapshot``).

A snapshot is a pickle. The reader imports, creates and calls nothing from it: it knows plain data
only, and raises an error for anything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import opscope._native as _native
from opscope.base.input_file import open_plain, shown_path, unreadable
from opscope.base.memory_limit import memory_for
from opscope.columns.location import Location
from opscope.columns.part import Values
from opscope.errors import TraceFormatError

_ALLOCATE, _FREE = "alloc", ("free_completed", "free")
_ACTIVE = ("active_allocated", "active_pending_free", "active_awaiting_free")
_MAX_STACKS = 100_000
_MAX_TOTAL_BYTES = 1 << 62
"""Limit of the sum of all sizes of a device: sums of 64 bits cannot exceed it."""
_OTHER, _ALLOCATED, _FREED = range(3)


@dataclass(frozen=True, eq=False)
class DeviceSnapshot:
    """Recorded events of one device's allocator, and its state at the end.

    Attributes:
        index: device number.
        is_free: whether each allocation or free, in order, is a free. Shape (events,).
        address: shape (events,).
        size_bytes: requested sizes, shape (events,).
        time_us: Unix microseconds; -1 unknown.
        stack: argument of ``MemorySnapshot.frames``; -1 for none.
        others: number of events of other kinds, by kind.
        block_address: blocks in use at the end. Shape (blocks,).
        block_bytes: requested sizes, shape (blocks,).
        block_stack: as ``stack``, shape (blocks,).
        reserved_bytes: total of all segments at the end.
        free_bytes: sizes of unused blocks in segments. Shape (free blocks,).
    """

    index: int
    is_free: Any
    address: Values
    size_bytes: Values
    time_us: Values
    stack: Values
    others: dict[str, int]
    block_address: Values
    block_bytes: Values
    block_stack: Values
    reserved_bytes: int
    free_bytes: Values


class MemorySnapshot:
    """A snapshot file in memory."""

    def __init__(self, pickle: _native.PlainPickle, devices: tuple[DeviceSnapshot, ...]) -> None:
        self._pickle, self.devices = pickle, devices
        self.frames = lru_cache(_MAX_STACKS)(self._frames)

    def _frames(self, stack: int) -> tuple[Location, ...]:
        """Frames of a stack, innermost first."""
        if stack < 0:
            return ()
        pickle, frames = self._pickle, []
        for frame in pickle.items(pickle.list(stack)):
            file, line, name = (
                pickle.value(pickle.get(frame, key)) for key in ("filename", "line", "name")
            )
            number = line if isinstance(line, int) and 0 <= line < 1 << 31 else -1
            frames.append(Location(str(file or ""), number, str(name or "")))
        return tuple(frames)


def read_snapshot(path: Path) -> MemorySnapshot:
    """Read a snapshot file.

    Raises:
        TraceFormatError: it is not a snapshot, is damaged, or has more than plain data.
        InsufficientMemoryError: it does not fit in memory.
    """
    with memory_for(f"reading {shown_path(path)}"):
        try:
            with open_plain(path) as file:
                data = np.fromfile(file, np.uint8)
        except OSError as error:
            raise unreadable(path, error) from error
        try:
            pickle = _native.PlainPickle(data)
            traces = pickle.items(pickle.get(pickle.root, "device_traces"))
            segments = pickle.items(pickle.get(pickle.root, "segments"))
            devices = tuple(_devices(pickle, traces, segments))
        except ValueError as error:
            raise TraceFormatError(
                f"{shown_path(path)} is not a readable memory snapshot: {error}. Write it again "
                "with torch.cuda.memory._dump_snapshot()."
            ) from error
        if not traces and not segments:
            raise TraceFormatError(
                f"{shown_path(path)} holds no allocations. Call "
                "torch.cuda.memory._record_memory_history() before the program, and then "
                "torch.cuda.memory._dump_snapshot()."
            )
        return MemorySnapshot(pickle, devices)


def _devices(
    pickle: _native.PlainPickle,
    traces: list[_native.PickledValue],
    segments: list[_native.PickledValue],
) -> list[DeviceSnapshot]:
    segments_by_device: dict[int, list[_native.PickledValue]] = {}
    for segment in segments:
        device = max(_integer(pickle, segment, "device"), 0)
        segments_by_device.setdefault(device, []).append(segment)
    snapshots = []
    for index in sorted({*range(len(traces)), *segments_by_device}):
        trace = traces[index] if index < len(traces) else None
        if index in segments_by_device or (trace is not None and pickle.items(trace)):
            snapshots.append(_device(pickle, index, trace, segments_by_device.get(index, [])))
    return snapshots


def _device(
    pickle: _native.PlainPickle,
    index: int,
    trace: _native.PickledValue | None,
    segments: list[_native.PickledValue],
) -> DeviceSnapshot:
    columns = {name: np.zeros(0, np.int64) for name in ("addr", "size", "time_us", "frames")}
    is_free, other_counts = np.zeros(0, np.bool_), dict[str, int]()
    if trace is not None:
        action = pickle.column(trace, "action", "text") + 1  # 0 for none
        counts = np.bincount(action)
        code = np.zeros(len(counts), dtype=np.int8)
        for number in np.flatnonzero(counts).tolist():
            kind = pickle.text(number - 1) if number else ""
            code[number] = _FREED if kind in _FREE else _ALLOCATED if kind == _ALLOCATE else _OTHER
            if not code[number]:
                other_counts[kind] = other_counts.get(kind, 0) + int(counts[number])
        coded = code[action]
        del action  # frees a large part of the file's size
        rows = np.flatnonzero(coded)
        is_free = coded[rows] == _FREED
        for name in columns:
            kind = "list" if name == "frames" else "integer"
            columns[name] = pickle.column(trace, name, kind)[rows]
    blocks, free, reserved = _blocks(pickle, segments)
    size = np.maximum(columns["size"], 0)
    in_blocks = sum(block[1] for block in blocks) + sum(free)
    if size.sum(dtype=np.float64) + in_blocks + reserved > _MAX_TOTAL_BYTES:
        raise ValueError(f"the sizes of device {index} are impossible")
    used = np.array(blocks, dtype=np.int64).reshape(-1, 3)
    return DeviceSnapshot(
        index,
        is_free,
        columns["addr"],
        size,
        columns["time_us"],
        columns["frames"],
        other_counts,
        used[:, 0],
        used[:, 1],
        used[:, 2],
        reserved,
        np.array(free, dtype=np.int64),
    )


def _blocks(
    pickle: _native.PlainPickle, segments: list[_native.PickledValue]
) -> tuple[list[tuple[int, int, int]], list[int], int]:
    """Blocks in use as address, size and stack; sizes of unused blocks; reserved bytes."""
    used, free, reserved = [], [], 0
    for segment in segments:
        begin, size = (_integer(pickle, segment, key) for key in ("address", "total_size"))
        reserved += max(size, 0)
        blocks = pickle.get(segment, "blocks")
        sizes = np.maximum(pickle.column(blocks, "size"), 0)
        requested_sizes = pickle.column(blocks, "requested_size")
        address = pickle.column(blocks, "address")
        # Older releases have addresses of segments only.
        address = np.where(address == -1, begin + np.cumsum(sizes) - sizes, address)
        states = pickle.column(blocks, "state", "text").tolist()
        stacks = pickle.column(blocks, "frames", "list").tolist()
        columns = (address.tolist(), sizes.tolist(), requested_sizes.tolist(), stacks, states)
        for block_address, size, requested, stack, state in zip(*columns, strict=True):
            if state >= 0 and pickle.text(state) in _ACTIVE:
                used.append((block_address, requested if requested >= 0 else size, stack))
            else:
                free.append(size)
    return used, free, reserved


def _integer(pickle: _native.PlainPickle, item: _native.PickledValue, key: str) -> int:
    value = pickle.value(pickle.get(item, key))
    return value if isinstance(value, int) else 0
