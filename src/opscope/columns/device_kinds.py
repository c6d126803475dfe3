"""Selecting kinds of device activity by the names of torch's activity filters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from opscope.columns.codes import GpuKind
from opscope.columns.schema import TABLES
from opscope.columns.trace_data import TraceData

DEVICE_KINDS = {
    "CONCURRENT_KERNEL": GpuKind.KERNEL,
    "GPU_MEMCPY": GpuKind.COPY,
    "GPU_MEMSET": GpuKind.SET,
    "CUDA_SYNC": GpuKind.SYNCHRONISATION,
    "GPU_USER_ANNOTATION": GpuKind.ANNOTATION,
}
"""Names of device activity in a filter, and their ``gpu.kind``."""

OTHER_DEVICE_KINDS = frozenset(
    {"OVERHEAD", "CUDA_RUNTIME", "CUDA_DRIVER", "CUDA_EVENT", "EXTERNAL_CORRELATION"}
)
"""Further names. Runtime calls always stay, because they connect work with operators."""


def device_kinds(filters: Mapping[Any, Collection[str]]) -> frozenset[str] | None:
    """Kinds that activity filters name for devices, in capitals; None without such a filter."""
    for activity, kinds in filters.items():
        if activity.name == "CUDA":
            return frozenset(kind.upper() for kind in kinds)
    return None


def keep_device_kinds(trace: TraceData, kinds: Collection[str]) -> TraceData:
    """``trace`` with only the named kinds in ``gpu``; ``gpu_overheads`` only with ``OVERHEAD``.

    The ledger is unchanged: it counts everything that was recorded.
    """
    wanted = [kind for name, kind in DEVICE_KINDS.items() if name in kinds]
    tables: dict[str, Any] = {name: trace.table(name) for name in TABLES if name != "metadata"}
    gpu = trace.table("gpu")
    tables["gpu"] = gpu.take(np.flatnonzero(np.isin(gpu["kind"], wanted)))
    if "OVERHEAD" not in kinds:
        tables["gpu_overheads"] = {}
    return TraceData(tables, trace.names, {**trace.metadata, "device_kinds": sorted(kinds)})
