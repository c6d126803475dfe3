"""Times, sizes and shares as sentences write them."""

from __future__ import annotations

_TIMES = ((10**9, "s"), (10**6, "ms"), (10**3, "µs"))
_SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def time_text(nanoseconds: int) -> str:
    """A time with three digits and its unit."""
    return _scaled(nanoseconds, _TIMES, "ns")


def bytes_text(size: int) -> str:
    """A size with three digits and its unit."""
    return _scaled(size, _SIZES, "B")


def share_text(share: float) -> str:
    """A share as a percentage: whole ones from 10 on."""
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"


def _scaled(value: int, scales: tuple[tuple[int, str], ...], smallest: str) -> str:
    for size, unit in scales:
        if value >= size:
            scaled = value / size
            return f"{scaled:.{2 if scaled < 10 else 1 if scaled < 100 else 0}f} {unit}"
    return f"{value} {smallest}"
