"""CUDA devices: finding CUPTI, NVIDIA's library that reports on them, and when it collects.

CUPTI is searched for in this order; a library that the process has already loaded comes first:

1. ``OPSCOPE_CUPTI``, a path; nothing else is tried then
2. the folders of the packages that torch was installed with (``nvidia/*/lib``)
3. ``CUDA_HOME`` or ``CUDA_PATH``: ``lib64`` and ``extras/CUPTI/lib64``
4. the loader's own search path

CUPTI collects from the first recording with devices until the last stops. A process has one CUPTI,
which torch's profiler and other tools also use. So stopping waits for the devices, fetches all
records and removes opscope's settings.
"""

from __future__ import annotations

import atexit
import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import opscope._native as _native
from opscope.base.notice import notice
from opscope.recording.facts.coexistence import torch_collects

_NAMES = ("libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8")

_TOOLS = {
    "libToolsInjection": "Nsight Systems",
    "libcuda-injection": "Nsight Compute",
    "libsanitizer-collection": "Compute Sanitizer",
}
"""Tools that inject a library into the program, by prefix of the library's name."""


def cupti_candidates() -> list[str]:
    """Possible paths and names of CUPTI, best first: releases that fit torch's CUDA."""
    chosen = os.environ.get("OPSCOPE_CUPTI")
    if chosen:
        return [chosen]
    names = _fitting_names()
    folders = [*_wheel_folders(), *_toolkit_folders()]
    files = [folder / name for folder in folders for name in (*names, "libcupti.so")]
    return [str(file) for file in files if file.exists()] + [*names, "libcupti.so"]


def advice() -> str:
    """A sentence of advice for when CUPTI is not found."""
    if getattr(getattr(sys.modules.get("torch"), "version", None), "hip", None):
        return "This torch is built for AMD's ROCm; opscope records only NVIDIA devices."
    return "Set OPSCOPE_CUPTI to the path of libcupti.so if it is in another place."


def may_share() -> bool:
    """Whether torch's own profiler may hold CUPTI's subscription, and collects nothing now.

    At least until 2.13, torch's profiler subscribes at its first use and never unsubscribes.
    """
    torch = sys.modules.get("torch")
    if torch is None or not getattr(torch.version, "cuda", None):
        return False
    return not torch_collects()


def _tool_around() -> str:
    """Name of the NVIDIA tool whose library is in this process; empty without one."""
    injected = os.environ.get("CUDA_INJECTION64_PATH", "")
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            loaded = file.read() + injected
    except OSError:
        loaded = injected
    return next((tool for library, tool in _TOOLS.items() if f"/{library}" in loaded), "")


def _devices_are_lost() -> bool:
    """Whether this process was forked from one that used CUDA, so CUDA no longer works."""
    torch = sys.modules.get("torch")
    is_lost = getattr(getattr(torch, "_C", None), "_cuda_isInBadFork", None)
    return bool(is_lost is not None and is_lost())


def wait_for_devices() -> None:
    """Wait for every device that the program has used: work is reported when it ends.

    Not during graph capture, which waiting would break. Errors of a failed device are ignored:
    the program's next call raises them.
    """
    cuda = _cuda_in_use()
    if cuda is None:
        return
    try:
        if cuda.is_current_stream_capturing():
            return
        for device in range(cuda.device_count()):
            if cuda.memory_reserved(device) or device == cuda.current_device():
                cuda.synchronize(device)
    except RuntimeError:
        return


def device_properties() -> list[dict[str, Any]]:
    """Properties of each device, from torch; empty before CUDA is used."""
    cuda = _cuda_in_use()
    if cuda is None:
        return []
    return [
        _properties(cuda.get_device_properties(device), device)
        for device in range(cuda.device_count())
    ]


def _cuda_in_use() -> Any:
    """``torch.cuda``; None before the program uses CUDA."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return torch.cuda


def _fitting_names() -> list[str]:
    """Names for torch's CUDA release, if known: other releases would not see torch's work."""
    torch = sys.modules.get("torch")
    version = str(getattr(getattr(torch, "version", None), "cuda", None) or "")
    major = version.split(".")[0]
    return [name for name in _NAMES if name.startswith(f"libcupti.so.{major}")] or list(_NAMES)


def _wheel_folders() -> list[Path]:
    torch = sys.modules.get("torch")
    if torch is None or not getattr(torch, "__file__", None):
        return []
    packages = Path(str(torch.__file__)).parent.parent / "nvidia"
    return [*sorted(packages.glob("cu[0-9]*/lib"), reverse=True), packages / "cuda_cupti" / "lib"]


def _toolkit_folders() -> list[Path]:
    roots = [Path(root) for name in ("CUDA_HOME", "CUDA_PATH") if (root := os.environ.get(name))]
    return [root / part for root in roots for part in ("lib64", "lib", "extras/CUPTI/lib64")]


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


_reported: set[str] = set()


@lru_cache(maxsize=1)
def set_up_gpu() -> None:
    """Give the recorder the paths to search for CUPTI, which is not called after the exit begins:
    it may be unloaded."""
    _native.set_gpu_candidates(cupti_candidates())
    atexit.register(_native.end_noting_devices)


def begin_gpu(wants: int = 0) -> str:
    """Start collecting for open windows; returns why that is impossible, or an empty string.

    If it is impossible, recording continues without devices, and prints one notice. A forked child
    of a process that used CUDA cannot use CUDA, so it has no activity to record. CUPTI is not
    called there: it would wait for threads that the child does not have.
    """
    if _devices_are_lost():
        return "this process was forked from one that used CUDA, and cannot use it"
    set_up_gpu()
    tool = _tool_around()
    refused = _native.configure_gpu(not tool and may_share(), wants)
    if refused and tool:
        refused = f"{tool} already uses CUPTI in this process ({refused})"
    if refused and refused not in _reported:
        _reported.add(refused)
        notice(f"GPU activity is not recorded: {refused}. CPU activity is. {advice()}")
    return refused


def end_gpu() -> None:
    """Stop collecting if the closed window was the last one with devices."""
    if not _native.gpu_is_wanted():
        wait_for_devices()
        _native.configure_gpu()


def end_gpu_in_stream() -> None:
    """Write the device activity of a closed streamed window to its file."""
    if _native.gpu_is_wanted():  # by another window; else stopping has waited
        wait_for_devices()
    _native.note_devices()
