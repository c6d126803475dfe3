"""Keeps the state of torch's own profiler as the program expects it.

The exception is ``torch.autograd.profiler._is_profiler_enabled``: while it is false, torch's
compiler makes no spans. So while opscope records, torch's compiler reads true, and other code reads
the program's value. While an ``opscope.profile`` is open, all code reads true: the program
profiles.
"""

from __future__ import annotations

import sys
import weakref
from types import BuiltinFunctionType, ModuleType
from typing import Any

import opscope._native as _native

_FLAG = "_is_profiler_enabled"
_COMPILERS = ("torch._dynamo", "torch._inductor", "torch._functorch")
_of_profiles: weakref.WeakSet[Any] = weakref.WeakSet()


class _TorchProfiler(ModuleType):
    """``torch.autograd.profiler`` while opscope is set up: the flag depends on its reader."""

    @property
    def _is_profiler_enabled(self) -> bool:
        own = bool(self.__dict__[_FLAG])
        return own or (is_recording() and (_is_profile_open() or _is_compiler_caller()))

    @_is_profiler_enabled.setter
    def _is_profiler_enabled(self, enabled: bool) -> None:
        self.__dict__[_FLAG] = enabled

    def __getattr__(self, name: str) -> Any:
        # From Python 3.14 on, warm code reads the dictionary of modules whose class has no
        # __getattr__, and so would not see the property.
        message = f"module {self.__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=self)


_TorchProfiler.__name__ = _TorchProfiler.__qualname__ = "module"
_TorchProfiler.__module__ = "builtins"


def set_up_coexistence() -> None:
    """Let the flag distinguish torch's compiler from the program; needs torch. Idempotent."""
    import torch.autograd.profiler as torch_profiler

    if type(torch_profiler) is ModuleType and _FLAG in vars(torch_profiler):
        torch_profiler.__class__ = _TorchProfiler


def is_recording() -> bool:
    """Whether any window of this process records now."""
    return _native.wanted() != 0


def is_torch_recording() -> bool:
    """Whether torch's own profiler runs on the calling thread."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch._C._autograd._profiler_enabled())


def torch_collects() -> bool:
    """Whether torch's own profiler has been started on any thread and not stopped."""
    profiler: Any = sys.modules.get("torch.autograd.profiler")
    # With the drop-in installed, the flag is opscope's.
    is_torchs = isinstance(getattr(profiler, "_enable_profiler", None), BuiltinFunctionType)
    return is_torchs and bool(vars(profiler).get(_FLAG))


def announce_profile(recording: Any) -> None:
    """Make the flag true for all code while ``recording`` runs."""
    if recording is not None:
        _of_profiles.add(recording)


def _is_profile_open() -> bool:
    return any(recording.running for recording in list(_of_profiles))


def _is_compiler_caller() -> bool:
    """Whether torch's compiler reads the property: its reader is the caller's caller."""
    name = sys._getframe(2).f_globals.get("__name__")
    return isinstance(name, str) and name.startswith(_COMPILERS)
