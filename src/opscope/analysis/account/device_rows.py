"""Device time of every step: compute, communication, copies, idle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from opscope.columns.causes import Cause
from opscope.columns.codes import GpuKind
from opscope.columns.labels import DEVICES
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Values
from opscope.timeline.steps import Steps
from opscope.timeline.stretches import union_of

_COLLECTIVE_KERNELS = ("nccl", "rccl")


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """Time of one device; arrays have shape (rows,)."""

    name: str  # ``cuda:0``
    step: Values  # row in the steps, -1 outside all
    cause: Values  # ``Cause``
    time_ns: Values  # nanoseconds on the device


def device_rows(trace: TraceData, steps: Steps, bounds: tuple[int, int]) -> Iterator[DeviceRows]:
    """Time of every device between two moments by step and cause; causes sum to the total."""
    gpu = trace.table("gpu")
    work = np.flatnonzero(np.isin(gpu["kind"], (GpuKind.KERNEL, GpuKind.COPY, GpuKind.SET)))
    edges = np.unique(np.concatenate([steps.start_ns, steps.end_ns, bounds])).astype(np.int64)
    edges = edges[(edges >= bounds[0]) & (edges <= bounds[1])]
    devices = np.stack([gpu["device_type"][work], gpu["device_index"][work]], axis=1)
    for kind, index in np.unique(devices.astype(np.int64), axis=0).tolist():
        own = work[(devices == (kind, index)).all(axis=1)]
        start, end = gpu["start_ns"][own], (gpu["start_ns"] + gpu["duration_ns"])[own]
        what = causes_of_device_work(trace, own)
        busy = [
            union_of(start[chosen], end[chosen]).covered(edges[:-1], edges[1:])
            for chosen in (what == Cause.OPERATOR, what != Cause.COPY, what >= 0)
        ]
        length = np.diff(edges)
        parts = (busy[0], busy[1] - busy[0], busy[2] - busy[1], length - busy[2])
        causes = (Cause.OPERATOR, Cause.COLLECTIVE, Cause.COPY, Cause.IDLE)
        step = steps.row_at(edges[:-1])
        yield DeviceRows(
            f"{DEVICES.get(kind, 'device')}:{index}",
            np.tile(step, len(parts)),
            np.repeat(np.array(causes, dtype=np.int64), len(step)),
            np.concatenate(parts),
        )


def causes_of_device_work(trace: TraceData, rows: Values) -> Values:
    """Cause of each row of ``gpu``: kernels are operators or collectives, the rest copies."""
    gpu = trace.table("gpu")
    texts = {name: trace.names[name].lower() for name in np.unique(gpu["name"][rows]).tolist()}
    talks = [name for name, text in texts.items() if text.startswith(_COLLECTIVE_KERNELS)]
    is_kernel = gpu["kind"][rows] == GpuKind.KERNEL
    kernels = np.where(np.isin(gpu["name"][rows], talks), Cause.COLLECTIVE, Cause.OPERATOR)
    return np.where(is_kernel, kernels, Cause.COPY).astype(np.int64)
