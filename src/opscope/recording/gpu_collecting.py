"""When CUPTI is on: from the first recording that wants devices until the last has stopped.

CUPTI is one per process, and others use it: torch's own profiler, Nsight. Stopping waits for the
devices, has all records delivered and leaves nothing of opscope's in CUPTI, so that whoever comes
next finds it as if opscope had not been there, and later steps cost what they did before.
"""

from __future__ import annotations

import os
import sys

from opscope import _native
from opscope.notice import notice
from opscope.recording.gpu_library import set_up_gpu
from opscope.recording.neighbours import torch_collects

_reported: set[str] = set()

_TOOLS = {
    "libToolsInjection": "Nsight Systems",
    "libcuda-injection": "Nsight Compute",
    "libsanitizer-collection": "Compute Sanitizer",
}
"""Tools that load a library into the programs they look at, by how its name begins."""


def begin_gpu(times_annotations: bool = False) -> str:
    """Start collecting for the window just opened; why that is impossible, or an empty string.

    Recording goes on without the device then, and the program's user is told once.

    Args:
        times_annotations: CUDA events are used instead.
    """
    set_up_gpu()
    tool = tool_around()
    refused = _native.configure_gpu(not tool and torch_profiler_is_idle())
    if refused and tool:
        refused = f"{tool} is looking at this process, and it uses CUPTI too ({refused})"
    if refused and refused not in _reported:
        _reported.add(refused)
        notice(
            f"GPU activity is not recorded: {refused}. Everything on the CPU is"
            f"{', and annotations are timed by CUDA events' if times_annotations else ''}. Set "
            "OPSCOPE_CUPTI to the path of libcupti.so if it is in an unusual place."
        )
    return refused


def end_gpu() -> None:
    """A window that had devices has closed; whoever was the last leaves CUPTI."""
    if not _native.gpu_is_wanted():
        wait_for_devices()
        _native.configure_gpu()


def wait_for_devices() -> None:
    """Wait until what was launched has run: CUPTI reports work when it is over.

    Not while a graph is captured, which waiting would spoil. A device that has failed is not
    waited for either: the program will hear of that from its own next call.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return
    try:
        if torch.cuda.is_current_stream_capturing():
            return
        for device in range(torch.cuda.device_count()):
            if torch.cuda.memory_reserved(device) or device == torch.cuda.current_device():
                torch.cuda.synchronize(device)
    except RuntimeError:
        return


def torch_profiler_is_idle() -> bool:
    """Whether torch's own profiler may hold CUPTI's subscription, and collects nothing now.

    Until 2.13 at least, it subscribes when it is first used and never gives that up.
    """
    torch = sys.modules.get("torch")
    if torch is None or not getattr(torch.version, "cuda", None):
        return False
    return not torch_collects()


def tool_around() -> str:
    """A tool for GPUs that looks at this process; empty if none is known."""
    injected = os.environ.get("CUDA_INJECTION64_PATH", "")
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            loaded = file.read() + injected
    except OSError:
        loaded = injected
    return next((tool for library, tool in _TOOLS.items() if f"/{library}" in loaded), "")
