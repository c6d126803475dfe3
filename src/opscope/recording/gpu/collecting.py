"""When device activity is collected: from the first recording that wants it until the last stops.

The library that reports it is one per process, and others use it: torch's own profiler, tools
around the program. Stopping waits for the devices, has all records delivered and leaves nothing of
opscope's in the library, so that whoever comes next finds it as if opscope had not been there, and
later steps cost what they did before.
"""

from __future__ import annotations

import atexit
from functools import lru_cache

from opscope import _native
from opscope.base.notice import notice
from opscope.recording.gpu.cuda_devices import CudaDevices

_reported: set[str] = set()


@lru_cache(maxsize=1)
def devices() -> CudaDevices:
    """The devices of this process; the native core has the source of what they do."""
    return CudaDevices()


@lru_cache(maxsize=1)
def set_up_gpu() -> None:
    """Tell the recorder where to look for the library."""
    _native.set_gpu_candidates(devices().candidates())


@lru_cache(maxsize=1)
def _end_noting_at_exit() -> None:
    """Nothing more is asked of the library, which may be gone before the process is."""
    atexit.register(_native.end_noting_devices)


def begin_gpu(wants: int = 0) -> str:
    """Start collecting for open windows; why that is impossible, or an empty string.

    Recording goes on without the device then, and the program's user is told once. A forked child
    of a process that used devices cannot use them, so nothing is missing there, and the library,
    which would wait for threads that are not there, is not touched.

    Args:
        wants: what a window that is about to open wants.
    """
    if devices().are_lost():
        return "this process was forked from one that used CUDA, and cannot use it"
    set_up_gpu()
    _end_noting_at_exit()
    tool = devices().tool_around()
    refused = _native.configure_gpu(not tool and devices().may_share(), wants)
    if refused and tool:
        refused = (
            f"{tool} is looking at this process, and it uses {devices().library} too ({refused})"
        )
    if refused and refused not in _reported:
        _reported.add(refused)
        notice(
            f"GPU activity is not recorded: {refused}. Everything on the CPU is. "
            f"{devices().advice()}"
        )
    return refused


def end_gpu() -> None:
    """A window that had devices has closed; whoever was the last leaves the library."""
    if not _native.gpu_is_wanted():
        wait_for_devices()
        _native.configure_gpu()


def end_gpu_in_stream() -> None:
    """A window that streams has closed: what its devices did is in its file, all of it."""
    if _native.gpu_is_wanted():  # by another; else stopping waited
        wait_for_devices()
    _native.note_devices()


def wait_for_devices() -> None:
    """Wait until what was launched has run: work is reported when it is over."""
    devices().wait()
