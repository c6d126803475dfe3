"""Functions that remain torch's: ``emit_nvtx``, ``emit_itt``, the legacy profiler.

torch pushes ranges to Nsight Systems or VTune itself, and ``profiler_legacy`` has its own records.
opscope passes on the configuration, and refuses its own profiles during that time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from opscope.torch_api.drop_in.backend.config import ProfilerConfig

RANGES = ("NVTX", "ITT")


@dataclass(frozen=True)
class _TorchFunctions:
    """torch's own functions and class that the drop-in replaces."""

    enable: Callable[..., None]
    disable: Callable[[], Any]
    enable_legacy: Callable[..., None]
    kind: Callable[[], Any]
    config: Callable[..., Any]

    def converted(self, config: ProfilerConfig) -> Any:
        return self.config(config.state, *config.switches(), config.experimental_config)


_torch_functions: _TorchFunctions | None = None


def keep(autograd: ModuleType, config: Callable[..., Any]) -> None:
    """Store torch's own functions before they are replaced."""
    global _torch_functions
    _torch_functions = _TorchFunctions(
        enable=autograd._enable_profiler,
        disable=autograd._disable_profiler,
        enable_legacy=autograd._enable_profiler_legacy,
        kind=autograd._profiler_type,
        config=config,
    )


def runs() -> bool:
    """Whether torch's own profiler runs on the calling thread."""
    return _torch_functions is not None and _torch_functions.kind().name in (*RANGES, "LEGACY")


def enable(config: ProfilerConfig, activities: set[Any], scopes: Any) -> None:
    """Let torch push ranges."""
    _installed().enable(_installed().converted(config), activities, scopes)


def disable() -> Any:
    """Stop torch's profiler; returns torch's result. Only while :func:`runs` is true."""
    return _installed().disable()


def enable_legacy(config: ProfilerConfig) -> None:
    """Let torch's legacy profiler record."""
    _installed().enable_legacy(_installed().converted(config))


def _installed() -> _TorchFunctions:
    if _torch_functions is None:
        raise RuntimeError("emit_nvtx, emit_itt and profiler_legacy need opscope.drop_in.install()")
    return _torch_functions
