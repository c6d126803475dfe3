"""``emit_nvtx`` and ``emit_itt`` under the drop-in: torch's own functions, called as they are.

torch pushes the ranges to Nsight Systems or VTune itself, and opscope records nothing for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from opscope.torch_api.drop_in.backend.config import ProfilerConfig

KINDS = ("NVTX", "ITT")


@dataclass(frozen=True)
class _Torchs:
    """torch's own functions and class, which the drop-in replaces."""

    enable: Callable[..., None]
    disable: Callable[[], Any]
    kind: Callable[[], Any]
    config: Callable[..., Any]


_torchs: _Torchs | None = None


def keep(autograd: ModuleType, config: Callable[..., Any]) -> None:
    """Keep torch's own functions, before they are replaced."""
    global _torchs
    _torchs = _Torchs(
        enable=autograd._enable_profiler,
        disable=autograd._disable_profiler,
        kind=autograd._profiler_type,
        config=config,
    )


def are_pushed() -> bool:
    """Whether torch pushes ranges for the calling thread."""
    return _torchs is not None and _torchs.kind().name in KINDS


def enable(config: ProfilerConfig, activities: set[Any], scopes: Any) -> None:
    """Have torch push ranges."""
    if _torchs is None:
        raise RuntimeError("emit_nvtx and emit_itt need opscope.drop_in.install()")
    torchs = _torchs.config(config.state, *config.switches(), config.experimental_config)
    _torchs.enable(torchs, activities, scopes)


def disable() -> Any:
    """Have torch stop; what torch returns then. Only while ranges are pushed."""
    return _torchs.disable() if _torchs is not None else None
