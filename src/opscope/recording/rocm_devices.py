"""ROCm devices, which roctracer reports on: AMD's library. It is searched for in this order, and of
each name first one that the process has loaded already:

1. ``OPSCOPE_ROCTRACER``, a path; nothing else is tried then
2. the folder of torch's own libraries
3. ``ROCM_PATH``, or ``/opt/rocm``
4. the loader's own search path
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from opscope.recording.cuda_devices import CudaDevices

_NAME = "libroctracer64.so"


def torch_is_for_rocm() -> bool:
    """Whether this process has a torch for AMD's devices, or is told where roctracer is."""
    torch = sys.modules.get("torch")
    built_for = getattr(getattr(torch, "version", None), "hip", None)
    return bool(built_for or os.environ.get("OPSCOPE_ROCTRACER"))


class RocmDevices:
    """See DeviceKind. torch's builds for ROCm call their devices CUDA, also where one waits."""

    library = "roctracer"

    def __init__(self) -> None:
        self._as_cuda = CudaDevices()

    def candidates(self) -> list[str]:
        """Paths and names that roctracer may have, best first."""
        chosen = os.environ.get("OPSCOPE_ROCTRACER")
        if chosen:
            return [chosen]
        files = [folder / _NAME for folder in _folders()]
        return [str(file) for file in files if file.exists()] + [_NAME, f"{_NAME}.4"]

    def advice(self) -> str:
        """Where to say that roctracer is elsewhere."""
        return f"Set OPSCOPE_ROCTRACER to the path of {_NAME} if it is in an unusual place."

    def may_share(self) -> bool:
        """roctracer has no subscription that others could hold."""
        return True

    def tool_around(self) -> str:
        """None is known to keep others from using roctracer."""
        return ""

    def are_lost(self) -> bool:
        """As of CUDA's."""
        return self._as_cuda.are_lost()

    def wait(self) -> None:
        """As for CUDA's devices: torch has the same functions for both."""
        self._as_cuda.wait()

    def properties(self) -> list[dict[str, Any]]:
        """As torch tells them."""
        return self._as_cuda.properties()


def _folders() -> list[Path]:
    file = getattr(sys.modules.get("torch"), "__file__", None)
    own = [Path(str(file)).parent / "lib"] if file else []
    return [*own, Path(os.environ.get("ROCM_PATH", "/opt/rocm")) / "lib"]
