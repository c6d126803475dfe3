"""``emit_nvtx`` and ``emit_itt``: spans as ranges that Nsight Systems or VTune show."""

from __future__ import annotations

import warnings

from opscope import _native
from opscope.recording import bridge

KINDS = ("NVTX", "ITT")


def begin_nvtx(with_shapes: bool) -> None:
    """Push every span as an NVTX range, with sequence number and id; warns if no tool listens."""
    bridge.load()
    _native.enter_thread()
    why_not = _native.emit_ranges("nvtx", with_shapes)
    if why_not:
        warnings.warn(f"emit_nvtx has no effect: {why_not}.", stacklevel=6)


def begin_itt(with_shapes: bool) -> None:
    """Push every span as an ITT task.

    Raises:
        RuntimeError: this build of torch has no ITT.
    """
    bridge.load()
    _native.enter_thread()
    why_not = _native.emit_ranges("itt", with_shapes)
    if why_not:
        _native.leave_thread()
        raise RuntimeError(
            f"Can't use emit_itt: {why_not}. Use emit_nvtx with a tool that takes NVTX, or a build "
            "of torch with ITT (those for x86 have it)."
        )


def end() -> None:
    """Push no more."""
    _native.stop_ranges()
    if _native.statistics()["wanted"] == 0:
        _native.leave_thread()
