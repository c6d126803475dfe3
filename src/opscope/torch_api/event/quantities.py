"""What adds up over events, under torch.profiler's names and in its units."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.analysis.torch_listing.rows import Quantities

SUMS = {
    "cpu_time_total": ("cpu_total_ns", 1000),
    "self_cpu_time_total": ("cpu_self_ns", 1000),
    "device_time_total": ("device_total_ns", 1000),
    "self_device_time_total": ("device_self_ns", 1000),
    "cpu_memory_usage": ("cpu_memory_bytes", 1),
    "self_cpu_memory_usage": ("cpu_self_memory_bytes", 1),
    "device_memory_usage": ("device_memory_bytes", 1),
    "self_device_memory_usage": ("device_self_memory_bytes", 1),
    "flops": ("flops", 1),
}
"""torch's attribute: the column of ``Quantities``, and its units per unit of torch's."""


def sums_in_torch_units(quantities: Quantities, count: int) -> dict[str, npt.NDArray[Any]]:
    """Each of ``SUMS`` for ``count`` rows: microseconds (float64), bytes and operations (int64)."""
    sums = {}
    for name, (column, units) in SUMS.items():
        values = getattr(quantities, column)
        values = np.zeros(count, dtype=np.int64) if values is None else values
        sums[name] = values / units if units > 1 else values
    return sums
