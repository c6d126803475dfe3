"""Functions that remain torch's: ``emit_nvtx``, ``emit_itt``, the legacy profiler.

torch pushes ranges to Nsight Systems or VTune itself, and ``profiler_legacy`` has its own records.
opscope passes on the configuration, and refuses its own profiles during that time.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from opscope.torch_api.drop_in.backend.config import ProfilerConfig

RANGES = ("NVTX", "ITT")
_NAMES = ("_enable_profiler", "_disable_profiler", "_enable_profiler_legacy", "_profiler_type")

_kept: dict[str, Callable[..., Any]] = {}
"""torch's own functions and its class ``config`` that the drop-in replaces, by their names."""


def keep(autograd: ModuleType, config: Callable[..., Any]) -> None:
    """Store torch's own functions before they are replaced."""
    _kept.update({name: getattr(autograd, name) for name in _NAMES}, config=config)


def runs() -> bool:
    """Whether torch's own profiler runs on the calling thread."""
    return bool(_kept) and _kept["_profiler_type"]().name in (*RANGES, "LEGACY")


def enable(config: ProfilerConfig, activities: set[Any], scopes: Any) -> None:
    """Let torch push ranges."""
    _enable("_enable_profiler", config, activities, scopes)


def disable() -> Any:
    """Stop torch's profiler; returns torch's result. Only while :func:`runs` is true."""
    return _kept["_disable_profiler"]()


def enable_legacy(config: ProfilerConfig) -> None:
    """Let torch's legacy profiler record."""
    _enable("_enable_profiler_legacy", config)


def _enable(name: str, config: ProfilerConfig, *more: Any) -> None:
    if not _kept:
        raise RuntimeError("emit_nvtx, emit_itt and profiler_legacy need opscope.drop_in.install()")
    converted = _kept["config"](config.state, *config.switches(), config.experimental_config)
    _kept[name](converted, *more)
