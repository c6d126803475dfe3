"""Functions that stay torch's under the drop-in: ``emit_nvtx``, ``emit_itt``, the legacy profiler.

torch pushes ranges to Nsight Systems or VTune itself, and ``profiler_legacy`` keeps its own
records. opscope passes on the configuration, and refuses its own profiles meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from opscope.torch_api.drop_in.backend.config import ProfilerConfig

RANGES = ("NVTX", "ITT")


@dataclass(frozen=True)
class _Torchs:
    """torch's own functions and class that the drop-in replaces."""

    enable: Callable[..., None]
    disable: Callable[[], Any]
    enable_legacy: Callable[..., None]
    kind: Callable[[], Any]
    config: Callable[..., Any]

    def converted(self, config: ProfilerConfig) -> Any:
        return self.config(config.state, *config.switches(), config.experimental_config)


_torchs: _Torchs | None = None


def keep(autograd: ModuleType, config: Callable[..., Any]) -> None:
    """Keep torch's own functions, before they are replaced."""
    global _torchs
    _torchs = _Torchs(
        enable=autograd._enable_profiler,
        disable=autograd._disable_profiler,
        enable_legacy=autograd._enable_profiler_legacy,
        kind=autograd._profiler_type,
        config=config,
    )


def runs() -> bool:
    """Whether torch's own profiler runs on the calling thread."""
    return _torchs is not None and _torchs.kind().name in (*RANGES, "LEGACY")


def enable(config: ProfilerConfig, activities: set[Any], scopes: Any) -> None:
    """Let torch push ranges."""
    _installed().enable(_installed().converted(config), activities, scopes)


def disable() -> Any:
    """Stop torch's profiler; returns torch's result. Only while :func:`runs` is true."""
    return _installed().disable()


def enable_legacy(config: ProfilerConfig) -> None:
    """Let torch's legacy profiler record."""
    _installed().enable_legacy(_installed().converted(config))


def _installed() -> _Torchs:
    if _torchs is None:
        raise RuntimeError("emit_nvtx, emit_itt and profiler_legacy need opscope.drop_in.install()")
    return _torchs
