"""Where CUPTI may be: NVIDIA's library that reports what a GPU does.

Searched in this order, and of each name first one that the process has loaded already:

1. ``OPSCOPE_CUPTI``, a path; nothing else is tried then
2. the folders of the packages that torch was installed with (``nvidia/*/lib``)
3. ``CUDA_HOME`` or ``CUDA_PATH``: ``lib64`` and ``extras/CUPTI/lib64``
4. the loader's own search path
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path

from opscope import _native

_NAMES = ("libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8")


def cupti_candidates() -> list[str]:
    """Paths and names to try, best first."""
    chosen = os.environ.get("OPSCOPE_CUPTI")
    if chosen:
        return [chosen]
    names = _fitting_names()
    folders = [*_wheel_folders(), *_toolkit_folders()]
    files = [folder / name for folder in folders for name in (*names, "libcupti.so")]
    return [str(file) for file in files if file.exists()] + [*names, "libcupti.so"]


@lru_cache(maxsize=1)
def set_up_gpu() -> None:
    """Tell the recorder where to look."""
    _native.set_gpu_candidates(cupti_candidates())


def _fitting_names() -> list[str]:
    """Of the CUDA release torch uses, if that is known: another's would not see torch's work."""
    torch = sys.modules.get("torch")
    version = str(getattr(getattr(torch, "version", None), "cuda", None) or "")
    major = version.split(".")[0]
    return [name for name in _NAMES if name.startswith(f"libcupti.so.{major}")] or list(_NAMES)


def _wheel_folders() -> list[Path]:
    torch = sys.modules.get("torch")
    if torch is None or not getattr(torch, "__file__", None):
        return []
    packages = Path(str(torch.__file__)).parent.parent / "nvidia"
    return [*sorted(packages.glob("cu*/lib"), reverse=True), packages / "cuda_cupti" / "lib"]


def _toolkit_folders() -> list[Path]:
    roots = [Path(root) for name in ("CUDA_HOME", "CUDA_PATH") if (root := os.environ.get(name))]
    return [root / part for root in roots for part in ("lib64", "lib", "extras/CUPTI/lib64")]
