"""Getting along with torch's own profiler and with ``fork``.

torch has one place per thread for whoever wants memory reports and compiled regions. opscope stands
there while it records; torch's profiler refuses to start on a thread where the place is taken. So
opscope steps aside when torch's profiler starts, and comes back when it has stopped.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

from opscope import _native

_OURS = "_opscope"  # an attribute of what stands in for torch's
_set_up = False
_torch_collects = False


def set_up_neighbours() -> None:
    """Have torch's profiler find its place free, once torch is imported. Idempotent."""
    global _set_up, _torch_collects
    if _set_up:
        return
    import torch.autograd.profiler as torch_profiler

    _torch_collects = torch_profiler._is_profiler_enabled
    _call_first(torch_profiler, "_run_on_profiler_start", _torch_starts)
    _call_last(torch_profiler, "_run_on_profiler_stop", _torch_has_stopped)
    _set_up = True


def is_recording() -> bool:
    """Whether any window of this process collects anything now."""
    return bool(_native.statistics()["wanted"] != 0)


def is_torch_recording() -> bool:
    """Whether torch's own profiler runs on the calling thread."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.autograd._profiler_enabled())


def torch_collects() -> bool:
    """Whether torch's own profiler has been started on any thread and not stopped yet.

    Its own flag cannot tell: opscope sets it as well, see :func:`announce_recording`.
    """
    return _torch_collects


def announce_recording() -> None:
    """Set the flag that libraries ask before they emit spans, as it is now on this thread."""
    profiler: Any = sys.modules.get("torch.autograd.profiler")
    if profiler is not None:
        profiler._is_profiler_enabled = is_recording() or is_torch_recording()


def take_place() -> None:
    """Stand where torch reports memory and compiled regions of the calling thread."""
    _native.enter_thread()
    announce_recording()


def leave_place() -> None:
    """Leave that place, on the calling thread."""
    _native.leave_thread()
    announce_recording()


def _torch_starts() -> None:
    global _torch_collects
    _native.leave_thread()
    # With the drop-in installed it is opscope that starts.
    enable = sys.modules["torch.autograd.profiler"]._enable_profiler
    _torch_collects = isinstance(enable, BuiltinFunctionType)


def _torch_has_stopped() -> None:
    global _torch_collects
    _torch_collects = False
    if is_recording():
        take_place()


def _call_first(owner: Any, name: str, action: Callable[[], None]) -> None:
    original = getattr(owner, name, None)
    if original is None or hasattr(original, _OURS):  # done already, then interrupted
        return

    @functools.wraps(original)
    def replaced(*args: Any, **kwargs: Any) -> Any:
        action()
        return original(*args, **kwargs)

    setattr(replaced, _OURS, True)
    setattr(owner, name, replaced)


def _call_last(owner: Any, name: str, action: Callable[[], None]) -> None:
    original = getattr(owner, name, None)
    if original is None or hasattr(original, _OURS):  # done already, then interrupted
        return

    @functools.wraps(original)
    def replaced(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        action()
        return result

    setattr(replaced, _OURS, True)
    setattr(owner, name, replaced)


def _after_fork_in_child() -> None:
    """A child has none of its parent's windows, and may profile itself with either profiler."""
    if _set_up:
        leave_place()


os.register_at_fork(after_in_child=_after_fork_in_child)
