"""What the recorder says of its own collecting of device activity: ledger and metadata."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from opscope.recording.decoded import Decoded
from opscope.recording.ledger import Recorded, Row
from opscope.trace.codes import GpuKind


def gpu_ledger(recorded: Recorded) -> list[Row]:
    """Rows of the ledger: delivered, shown, and lost for which reason."""
    decoded = recorded.decoded
    if decoded.gpu_refused:
        return [
            ("gpu", "not recorded: CUPTI cannot be used", 1.0),
            *(("gpu", what, value) for what, value in decoded.gpu_timed.items()),
        ]
    if decoded.devices is None:
        return []
    counts, gpu = decoded.devices.account, decoded.tables["gpu"]
    lost = counts["dropped"] + counts["over_budget"]
    rows: list[Row] = [
        ("gpu", "requested", counts["recorded"] + lost),
        ("gpu", "recorded", counts["recorded"]),
        ("gpu", "dropped: memory budget", counts["over_budget"]),
        ("gpu", "dropped: by CUPTI, no buffer free", counts["dropped"]),
        ("gpu", "buffers refused: memory budget", counts["refused_buffers"]),
        ("gpu", "unfinished", counts["unfinished"]),
        ("gpu", "of an unknown kind", counts["unknown"]),
        ("gpu", "left out: calls that tell nothing (cudaGetDevice)", counts["noise"]),
        ("gpu", "left out: launched outside the recording", counts["launched_outside"]),
        ("gpu", "work", int(np.count_nonzero(gpu["kind"] <= GpuKind.SET))),
        ("gpu", "work without its launch", counts["without_launch"]),
        ("gpu", "clock error_ns", counts["clock_error_ns"]),
    ]
    return rows + [("gpu", f"not available: {k}", 1) for k in counts["missing_kinds"]]


def gpu_metadata(decoded: Decoded) -> dict[str, Any]:
    """What was used to collect, or why nothing was, and the devices."""
    if decoded.gpu_refused:
        timing = {"timing": "CUDA events around annotations"} if decoded.gpu_timed else {}
        return {"gpu": {"unavailable": decoded.gpu_refused, **timing}}
    if decoded.devices is None:
        return {}
    source = decoded.devices.account
    about = {
        "library": source["library_path"],
        "cupti_version": source["library_version"],
        "clock": "recorder" if source["clock_is_ours"] else "converted",
    }
    properties = device_properties()
    return {"gpu": about, **({"deviceProperties": properties} if properties else {})}


def device_properties() -> list[dict[str, Any]]:
    """The CUDA devices of the process, under the names that Kineto uses; empty without CUDA."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return []
    return [
        _properties(torch.cuda.get_device_properties(device), device)
        for device in range(torch.cuda.device_count())
    ]


def _properties(device: Any, index: int) -> dict[str, Any]:
    return {
        "id": index,
        "name": device.name,
        "totalGlobalMem": device.total_memory,
        "computeMajor": device.major,
        "computeMinor": device.minor,
        "maxThreadsPerMultiprocessor": device.max_threads_per_multi_processor,
        "regsPerMultiprocessor": getattr(device, "regs_per_multiprocessor", 0),
        "warpSize": getattr(device, "warp_size", 32),
        "sharedMemPerBlock": getattr(device, "shared_memory_per_block", 0),
        "sharedMemPerMultiprocessor": getattr(device, "shared_memory_per_multiprocessor", 0),
        "numSms": device.multi_processor_count,
    }
