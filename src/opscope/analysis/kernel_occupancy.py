"""Occupancy of kernels, estimated from launch sizes and device limits.

Threads, registers and shared memory of a multiprocessor limit its number of blocks. The estimate is
what a launch could reach, as Kineto's "est. achieved occupancy"; it is no measurement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Amounts

_WARP = 32
_REGISTER_UNIT = 256  # unit of registers for warps (all devices since Kepler)
_SCHEDULERS = 4  # of a multiprocessor; each has its part of the registers (since Maxwell)
_RESERVES_SINCE = 8  # compute capability since which each block costs extra shared memory
_RESERVED_BYTES = 1024
_OLDEST_KNOWN = 5
_BLOCKS = {(7, 5): 16, (8, 6): 16, (8, 7): 16, (8, 9): 24}
"""Maximum blocks of a multiprocessor by compute capability; 32 for all others."""

_KERNEL = 0


@dataclass(frozen=True)
class KernelOccupancy:
    """Values per row of ``gpu``; 0 for other work than kernels. Arrays have shape (gpu rows,)."""

    blocks_per_sm: Amounts  # blocks of the grid per multiprocessor
    warps_per_sm: Amounts  # warps of the grid per multiprocessor
    occupancy: Amounts  # share of a multiprocessor's warps in use at once, 0 to 1


def kernel_occupancy(trace: TraceData) -> KernelOccupancy | None:
    """Estimate occupancy of every kernel; None without device properties."""
    gpu = trace.table("gpu")
    devices = {int(d.get("id", -1)): d for d in trace.metadata.get("deviceProperties") or ()}
    if not devices or not len(gpu):
        return None
    kernels = np.flatnonzero(
        (gpu["kind"] == _KERNEL)
        & (np.diff(gpu.lists("grid").offsets) == 3)
        & (np.diff(gpu.lists("block").offsets) == 3)
    )
    result = KernelOccupancy(*(np.zeros(len(gpu)) for _ in range(3)))
    for index, device in devices.items():
        rows = kernels[gpu["device_index"][kernels] == index]
        if len(rows) and device.get("numSms") and device.get("maxThreadsPerMultiprocessor"):
            _fill(result, trace, rows, device)
    return result


def _fill(result: KernelOccupancy, trace: TraceData, rows: Any, device: dict[str, Any]) -> None:
    gpu = trace.table("gpu")
    blocks = _product(gpu.lists("grid"), rows) / device["numSms"]
    warps = np.maximum(np.ceil(_product(gpu.lists("block"), rows) / _WARP), 1)
    most_warps = device["maxThreadsPerMultiprocessor"] / _WARP
    fitting = np.minimum(np.floor(most_warps / warps), _most_blocks(device))
    if limit := device.get("regsPerMultiprocessor", 0):
        registers = gpu["registers_per_thread"][rows] * _WARP
        registers = np.ceil(registers / _REGISTER_UNIT) * _REGISTER_UNIT
        in_each = np.floor(limit / _SCHEDULERS / np.maximum(registers, 1))
        fitting = np.minimum(fitting, np.floor(in_each * _SCHEDULERS / warps))
    if limit := device.get("sharedMemPerMultiprocessor", 0):
        reserved = _RESERVED_BYTES if device.get("computeMajor", 0) >= _RESERVES_SINCE else 0
        shared = gpu["shared_memory_bytes"][rows].astype(np.float64) + reserved
        fitting = np.minimum(fitting, np.floor(limit / np.maximum(shared, 1)))
    result.blocks_per_sm[rows] = blocks
    result.warps_per_sm[rows] = blocks * warps
    result.occupancy[rows] = np.minimum(np.minimum(fitting, blocks) * warps / most_warps, 1.0)


def _most_blocks(device: dict[str, Any]) -> float:
    """Maximum blocks of a multiprocessor; infinite for an unknown compute capability."""
    capability = (device.get("computeMajor", 0), device.get("computeMinor", 0))
    return _BLOCKS.get(capability, 32) if capability[0] >= _OLDEST_KNOWN else np.inf


def _product(column: Any, rows: Any) -> Amounts:
    starts = column.offsets[rows]
    values: Amounts = np.prod(column.values[starts[:, None] + np.arange(3)], axis=1, dtype=float)
    return values
