"""Device time of every step: compute, communication, copies, idle."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opscope.columns.causes import Cause
from opscope.columns.codes import GpuKind
from opscope.columns.labels import device_name
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Amounts, Values
from opscope.timeline.listing import WORK_KINDS
from opscope.timeline.steps import Steps
from opscope.timeline.stretches import union_of

_COLLECTIVE_KERNELS = ("nccl", "rccl")


def times_of_devices(
    trace: TraceData, steps: Steps, bounds: tuple[int, int]
) -> Iterator[tuple[str, Amounts]]:
    """Name of each device, and its time between two moments by step and cause.

    Time outside steps comes first; causes sum to the total. Shape ((steps + 1) * causes,).
    """
    gpu = trace.table("gpu")
    edges = np.unique(np.concatenate([steps.start_ns, steps.end_ns, bounds])).astype(np.int64)
    edges = edges[(edges >= bounds[0]) & (edges <= bounds[1])]
    step = steps.row_at(edges[:-1]) + 1
    for name, own in work_by_device(trace, np.flatnonzero(np.isin(gpu["kind"], WORK_KINDS))):
        start, end = gpu["start_ns"][own], (gpu["start_ns"] + gpu["duration_ns"])[own]
        what = causes_of_device_work(trace, own)
        busy = [
            union_of(start[chosen], end[chosen]).covered(edges[:-1], edges[1:])
            for chosen in (what == Cause.OPERATOR, what != Cause.COPY, what >= 0)
        ]
        parts = (busy[0], busy[1] - busy[0], busy[2] - busy[1], np.diff(edges) - busy[2])
        time = np.zeros((len(steps) + 1, len(Cause)))
        for cause, part in zip(_CAUSES, parts, strict=True):
            np.add.at(time[:, cause], step, part)
        yield name, time.ravel()


_CAUSES = (Cause.OPERATOR, Cause.COLLECTIVE, Cause.COPY, Cause.IDLE)


def work_by_device(trace: TraceData, rows: Values) -> Iterator[tuple[str, Values]]:
    """Name of each device, as in ``cuda:0``, and its own of these rows of ``gpu``."""
    gpu = trace.table("gpu")
    kind, index = gpu["device_type"][rows], gpu["device_index"][rows]
    code = kind.astype(np.int16) * 256 + index.astype(np.uint8)  # one number, quick to sort
    for one in np.unique(code).tolist():
        own = rows[code == one]
        yield device_name(int(gpu["device_type"][own[0]]), int(gpu["device_index"][own[0]])), own


def causes_of_device_work(trace: TraceData, rows: Values) -> Values:
    """Cause of each row of ``gpu``: kernels are operators or collectives, the rest copies."""
    gpu = trace.table("gpu")
    texts = {name: trace.names[name].lower() for name in np.unique(gpu["name"][rows]).tolist()}
    talks = [name for name, text in texts.items() if text.startswith(_COLLECTIVE_KERNELS)]
    is_kernel = gpu["kind"][rows] == GpuKind.KERNEL
    kernels = np.where(np.isin(gpu["name"][rows], talks), Cause.COLLECTIVE, Cause.OPERATOR)
    return np.where(is_kernel, kernels, Cause.COPY).astype(np.int64)
