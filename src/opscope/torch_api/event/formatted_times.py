"""Times, shares and sizes as torch.profiler writes them."""

from __future__ import annotations

import warnings
from typing import Any

_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}

TIME_UNITS = tuple(_UNITS)  # units of times in tables


def format_time(time_us: float, unit: str | None = None) -> str:
    """Microseconds as ``1.234ms``; the unit suits the value unless it is given."""
    if unit is None:
        unit = "s" if time_us >= _UNITS["s"] else "ms" if time_us >= _UNITS["ms"] else "us"
    return f"{time_us / _UNITS[unit]:.3f}{unit}"


def format_time_share(time_us: float, total_time_us: float) -> str:
    """Percentage such as ``12.34%``; ``NaN`` if the total is 0."""
    return f"{time_us * 100.0 / total_time_us:.2f}%" if total_time_us else "NaN"


def format_memory(nbytes: float) -> str:
    """Bytes as ``1.50 KB``; plain bytes below 1 KB."""
    for exponent, unit in ((3, "GB"), (2, "MB"), (1, "KB")):
        if abs(nbytes) >= 1024**exponent:
            return f"{nbytes / 1024**exponent:.2f} {unit}"
    return f"{nbytes} B"


def flops_unit(smallest: float) -> tuple[float, str]:
    """Factor and header that scale a positive number of operations to three digits at most."""
    units = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")
    power = 0
    while power + 1 < len(units) and smallest >= 1000.0 ** (power + 1):
        power += 1
    return 1000.0**-power, units[power]


def shorten(text: str, width: int | None) -> str:
    """``text``, with ``...`` at the end if it exceeds ``width``."""
    return text if width is None or len(text) < width - 3 else text[: width - 3] + "..."


def shorten_path(path: str, width: int) -> str:
    """``path``, with ``...`` at the begin if it exceeds ``width``."""
    if len(path) <= width:
        return path
    end = path[len(path) - width :]
    return "..." + end[3:] if len(end) > 3 else end


def _as_text(name: str) -> property:
    return property(lambda self: format_time(float(getattr(self, name))))


def deprecated(new: str) -> property:
    """An old name of ``new``, which warns."""

    def read(self: Any) -> Any:
        warnings.warn(f"Use {new} instead", FutureWarning, stacklevel=2)
        return getattr(self, new)

    return property(read)


class FormattedTimesMixin:
    """Averages and texts for classes with ``*_time_total`` in microseconds and ``count``."""

    count: int

    @property
    def cpu_time(self) -> float:
        """CPU microseconds per call."""
        return self._per_call("cpu_time_total")

    @property
    def device_time(self) -> float:
        """Device microseconds per call."""
        return self._per_call("device_time_total")

    cuda_time = deprecated("device_time")
    cpu_time_str = _as_text("cpu_time")
    device_time_str = _as_text("device_time")
    cpu_time_total_str = _as_text("cpu_time_total")
    device_time_total_str = _as_text("device_time_total")
    self_cpu_time_total_str = _as_text("self_cpu_time_total")
    self_device_time_total_str = _as_text("self_device_time_total")

    def _per_call(self, name: str) -> float:
        return float(getattr(self, name)) / self.count if self.count else 0.0
