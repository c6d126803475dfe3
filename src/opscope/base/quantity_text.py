"""Times, sizes and shares as text, and parsed from text: "30s", "256MiB"."""

from __future__ import annotations

import re
from collections.abc import Mapping

from opscope.errors import UsageError

_TIMES = ((10**9, "s"), (10**6, "ms"), (10**3, "µs"))
_SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def time_text(nanoseconds: int) -> str:
    """Time with three digits and its unit."""
    return _scaled(nanoseconds, _TIMES, "ns")


def bytes_text(size: int) -> str:
    """Size with three digits and its unit."""
    return _scaled(size, _SIZES, "B")


def share_text(share: float) -> str:
    """Share as a percentage, with one decimal below 10 %."""
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"


def _scaled(value: int, scales: tuple[tuple[int, str], ...], smallest: str) -> str:
    for size, unit in scales:
        if value >= size:
            scaled = value / size
            return f"{scaled:.{2 if scaled < 10 else 1 if scaled < 100 else 0}f} {unit}"
    return f"{value} {smallest}"


_SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*")


def nanoseconds(value: str | float, name: str) -> int:
    """Nanoseconds of a number of seconds, or of a text with ``ms``, ``s``, ``min`` or ``h``."""
    return int(_positive(value, _SECONDS, name, "a time such as '30s', '500ms' or '5min'") * 1e9)


def count_bytes(value: str | int, name: str) -> int:
    """Bytes of a number of bytes, or of a text with ``B``, ``KiB``, ``MiB`` or ``GiB``."""
    return int(_positive(value, _BYTES, name, "a size such as '256MiB' or '1GiB'"))


def _positive(value: str | float, units: Mapping[str, float], name: str, example: str) -> float:
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if isinstance(value, str) and (match := _NUMBER.fullmatch(value)) and match[2] in units:
        number = float(match[1]) * units[match[2]]
    if number is None or not 0 < number < 1e15:
        raise UsageError(f"{name} {value!r} is not {example}. Give one of that form.")
    return number
