"""Settings of the call recorder for Python and torch: code to skip, module classes."""

from __future__ import annotations

import functools
import os
import site
import sys
from pathlib import Path
from typing import Any

import opscope._native as _native
from opscope.base.program_files import ALWAYS_RECORDED, LIBRARY_ENDINGS, LIBRARY_MARKS
from opscope.recording.parameters import read_parameters
from opscope.recording.torch_compile import report_optimizer_step

_set_up = False


def set_up_python_source() -> None:
    """Give the native call recorder torch's classes, once torch is imported."""
    global _set_up
    if _set_up:
        return
    import torch

    optimizer_step: Any = getattr(torch.optim.Optimizer, "_optimizer_step_code", None)
    fast_annotation = getattr(torch._C._profiler, "_RecordFunctionFast", None)
    if fast_annotation is not None:
        _native.guard_fast_annotations(fast_annotation)
    optimizers = sys.modules.get("torch.optim.optimizer")
    package = Path(__file__).parents[2]
    _native.set_up_python(
        str(package) + os.sep,
        str(package / "torch_api" / "annotate.py"),
        str(package / "launch" / "program.py"),
        torch.nn.Module.__call__,
        getattr(optimizer_step, "__code__", None),
        read_parameters,
        getattr(optimizers, "_global_optimizer_post_hooks", None),
        report_optimizer_step,
        LIBRARY_MARKS,
        LIBRARY_ENDINGS,
        ALWAYS_RECORDED,
    )
    _set_up = True


def path_prefixes() -> list[str]:
    """Folders that modules are imported from, longest first: function names omit them."""
    folders = {*_site_folders()}
    for folder in sys.path:
        is_absolute = type(folder) is str and folder.startswith(os.sep)
        folders.add(_from_the_root(folder) if is_absolute else _absolute(folder))
    torch = sys.modules.get("torch")
    if torch is not None and torch.__file__ is not None:
        folders.add(_above_module(torch.__file__))
    return [folder + os.sep for folder in sorted(filter(None, folders), reverse=True)]


@functools.cache
def _site_folders() -> frozenset[str | None]:
    folders = [*site.getsitepackages(), site.getuserbase(), site.getusersitepackages()]
    return frozenset(map(_absolute, folders))


@functools.lru_cache(maxsize=1000)
def _above_module(file: str) -> str | None:
    return _absolute(Path(file).parent.parent.as_posix())


def _absolute(folder: Any) -> str | None:
    try:
        path = os.path.abspath(folder)
    except (TypeError, ValueError, OSError):  # not a path, or the current folder is gone
        return None
    return path if isinstance(path, str) else None


# For absolute paths. Cached because every dump needs them while the program waits.
_from_the_root = functools.lru_cache(maxsize=1000)(_absolute)
