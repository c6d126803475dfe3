"""``emit_nvtx`` and ``emit_itt``: spans as ranges that Nsight Systems or VTune show."""

from __future__ import annotations

import warnings

from opscope.recording import bridge
from opscope.recording.ranges import Ranges


def begin(ranges: Ranges) -> None:
    """Push every span as an NVTX range or an ITT task; warns if no tool listens to NVTX.

    Raises:
        RuntimeError: this build of torch has no ITT.
    """
    bridge.load()
    why_not = ranges.show()
    if why_not and ranges.kind == "nvtx":
        warnings.warn(f"emit_nvtx has no effect: {why_not}.", stacklevel=6)
    elif why_not:
        raise RuntimeError(
            f"Can't use emit_itt: {why_not}. Use emit_nvtx with a tool that takes NVTX, or a build "
            "of torch with ITT (those for x86 have it)."
        )
