"""Reads memory snapshots of torch (``torch.cuda.memory._dump_snapshot``) into columns.

They are pickles. Nothing in one is imported, made or called: the reader knows plain data alone, and
refuses a file that holds anything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from opscope import _native
from opscope.base.input_file import open_plain, shown_path, unreadable
from opscope.base.memory_limit import memory_for
from opscope.columns.location import Location
from opscope.columns.part import Values
from opscope.errors import TraceFormatError

_ALLOCATE, _FREE = "alloc", ("free_completed", "free")
_ACTIVE = ("active_allocated", "active_pending_free", "active_awaiting_free")
_MOST_STACKS = 100_000
_OTHER, _ALLOCATED, _FREED = range(3)


@dataclass(frozen=True, eq=False)
class DeviceSnapshot:
    """Events that the allocator of one device recorded, and its state at the end.

    Attributes:
        index: of the device.
        is_free: of every allocation and free, in their order, which it is. Shape (events,).
        address: likewise.
        size_bytes: as requested.
        time_us: Unix microseconds; -1 unknown.
        stack: for ``MemorySnapshot.frames``; -1 for none.
        others: how many events are of other kinds, by kind.
        block_address: blocks in use at the end. Shape (blocks,).
        block_bytes: as requested.
        block_stack: as above.
        reserved_bytes: of all segments at the end.
        free_bytes: of blocks in segments that are not in use, one each. Shape (free blocks,).
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
    """A snapshot file, read."""

    def __init__(self, pickle: _native.PlainPickle, devices: tuple[DeviceSnapshot, ...]) -> None:
        self._pickle, self.devices = pickle, devices
        self.frames = lru_cache(_MOST_STACKS)(self._frames)

    def _frames(self, stack: int) -> tuple[Location, ...]:
        """Frames of a stack, innermost first."""
        if stack < 0:
            return ()
        pickle, found = self._pickle, []
        for frame in pickle.items(pickle.list(stack)):
            file, line, name = (
                pickle.value(pickle.get(frame, key)) for key in ("filename", "line", "name")
            )
            number = line if isinstance(line, int) and 0 <= line < 1 << 31 else -1
            found.append(Location(str(file or ""), number, str(name or "")))
        return tuple(found)


def read_snapshot(path: Path) -> MemorySnapshot:
    """Read one.

    Raises:
        TraceFormatError: it is no snapshot, damaged, or holds more than plain data.
        InsufficientMemoryError: it does not fit in the memory there is.
    """
    with memory_for(f"reading {shown_path(path)}"):
        try:
            with open_plain(path) as file:
                data = np.fromfile(file, np.uint8)
        except OSError as error:
            raise unreadable(path, error) from error
        try:
            pickle = _native.PlainPickle(data)
        except ValueError as error:
            raise TraceFormatError(
                f"{shown_path(path)} is not a readable memory snapshot: {error}. Write it again "
                "with torch.cuda.memory._dump_snapshot()."
            ) from error
        traces = pickle.items(pickle.get(pickle.root, "device_traces"))
        segments = pickle.items(pickle.get(pickle.root, "segments"))
        if not traces and not segments:
            raise TraceFormatError(
                f"{shown_path(path)} holds no allocations. Call "
                "torch.cuda.memory._record_memory_history() before the program, and then "
                "torch.cuda.memory._dump_snapshot()."
            )
        return MemorySnapshot(pickle, tuple(_devices(pickle, traces, segments)))


def _devices(
    pickle: _native.PlainPickle,
    traces: list[_native.PickledValue],
    segments: list[_native.PickledValue],
) -> list[DeviceSnapshot]:
    of_device: dict[int, list[_native.PickledValue]] = {}
    for segment in segments:
        device = pickle.value(pickle.get(segment, "device"))
        of_device.setdefault(device if isinstance(device, int) else 0, []).append(segment)
    found = []
    for index in sorted({*range(len(traces)), *of_device}):
        trace = traces[index] if index < len(traces) else None
        if index in of_device or (trace is not None and pickle.items(trace)):
            found.append(_device(pickle, index, trace, of_device.get(index, [])))
    return found


def _device(
    pickle: _native.PlainPickle,
    index: int,
    trace: _native.PickledValue | None,
    segments: list[_native.PickledValue],
) -> DeviceSnapshot:
    columns = {name: np.zeros(0, np.int64) for name in ("addr", "size", "time_us", "frames")}
    is_free, others = np.zeros(0, np.bool_), dict[str, int]()
    if trace is not None:
        action = pickle.column(trace, "action", "text") + 1  # 0 for none
        counts = np.bincount(action)
        code = np.zeros(len(counts), dtype=np.int8)
        for one in np.flatnonzero(counts).tolist():
            kind = pickle.text(one - 1) if one else ""
            code[one] = _FREED if kind in _FREE else _ALLOCATED if kind == _ALLOCATE else _OTHER
            if not code[one]:
                others[kind] = others.get(kind, 0) + int(counts[one])
        coded = code[action]
        del action  # of a billion bytes of file these are a large part
        rows = np.flatnonzero(coded)
        is_free = coded[rows] == _FREED
        for name in columns:
            kind = "list" if name == "frames" else "integer"
            columns[name] = pickle.column(trace, name, kind)[rows]
    blocks, free, reserved = _blocks(pickle, segments)
    used = np.array(blocks, dtype=np.int64).reshape(-1, 3)
    return DeviceSnapshot(
        index,
        is_free,
        columns["addr"],
        np.maximum(columns["size"], 0),
        columns["time_us"],
        columns["frames"],
        others,
        used[:, 0],
        used[:, 1],
        used[:, 2],
        reserved,
        np.array(free, dtype=np.int64),
    )


def _blocks(
    pickle: _native.PlainPickle, segments: list[_native.PickledValue]
) -> tuple[list[tuple[int, int, int]], list[int], int]:
    """Blocks in use as address, size and stack; sizes of those that are not; bytes reserved."""
    used, free, reserved = [], [], 0
    for segment in segments:
        begin, size = (_integer(pickle, segment, key) for key in ("address", "total_size"))
        reserved += max(size, 0)
        blocks = pickle.get(segment, "blocks")
        sizes = np.maximum(pickle.column(blocks, "size"), 0)
        requested_sizes = pickle.column(blocks, "requested_size")
        address = pickle.column(blocks, "address")
        # Older releases say where the segment is alone.
        address = np.where(address == -1, begin + np.cumsum(sizes) - sizes, address)
        states = pickle.column(blocks, "state", "text").tolist()
        stacks = pickle.column(blocks, "frames", "list").tolist()
        columns = (address.tolist(), sizes.tolist(), requested_sizes.tolist(), stacks, states)
        for where, size, requested, stack, state in zip(*columns, strict=True):
            if state >= 0 and pickle.text(state) in _ACTIVE:
                used.append((where, requested if requested >= 0 else size, stack))
            else:
                free.append(size)
    return used, free, reserved


def _integer(pickle: _native.PlainPickle, of: _native.PickledValue, key: str) -> int:
    value = pickle.value(pickle.get(of, key))
    return value if isinstance(value, int) else 0
