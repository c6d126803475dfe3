"""Integers out of JSON that may hold anything."""

from __future__ import annotations

from typing import Any

TIME_LIMIT = 1 << 61
"""Nanoseconds; beyond it a sum of base, time and duration could leave ``int64``."""


def integer(value: Any, default: int = 0, low: int = -(1 << 63), high: int = (1 << 63) - 1) -> int:
    """``value`` if it is an integer (or the text of one) within bounds, else ``default``."""
    if isinstance(value, str) and len(value) < 21 and value.removeprefix("-").isdecimal():
        value = int(value)
    return value if type(value) is int and low <= value <= high else default
