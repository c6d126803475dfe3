"""Keeping some kinds of device activity only, by the names that torch's activity filters have."""

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
"""Kinds of device activity that a filter may name, and the ``gpu.kind`` each is."""

OTHER_DEVICE_KINDS = frozenset(
    {"OVERHEAD", "CUDA_RUNTIME", "CUDA_DRIVER", "CUDA_EVENT", "EXTERNAL_CORRELATION"}
)
"""Further names. Calls of the runtime stay, named or not: they lead from work to operators."""


def device_kinds(filters: Mapping[Any, Collection[str]]) -> frozenset[str] | None:
    """What activity filters say of devices, in capitals; None if they say nothing."""
    for activity, kinds in filters.items():
        if activity.name == "CUDA":
            return frozenset(kind.upper() for kind in kinds)
    return None


def keep_device_kinds(trace: TraceData, kinds: Collection[str]) -> TraceData:
    """``trace`` with the named kinds in ``gpu``, and ``gpu_overheads`` if ``OVERHEAD`` is named.

    The ledger stays: it is about everything that was recorded.
    """
    wanted = [kind for name, kind in DEVICE_KINDS.items() if name in kinds]
    tables: dict[str, Any] = {name: trace.table(name) for name in TABLES if name != "metadata"}
    gpu = trace.table("gpu")
    tables["gpu"] = gpu.take(np.flatnonzero(np.isin(gpu["kind"], wanted)))
    if "OVERHEAD" not in kinds:
        tables["gpu_overheads"] = {}
    return TraceData(tables, trace.names, {**trace.metadata, "device_kinds": sorted(kinds)})
