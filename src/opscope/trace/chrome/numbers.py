"""Times and integers out of JSON that may hold anything."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

TIME_LIMIT = 1 << 61
"""Nanoseconds; beyond it a sum of base, time and duration could leave ``int64``."""


class NumberText(str):
    """A JSON number with a fraction, kept as text.

    Kineto's ``ts`` has 16 digits: as a double it is a nanosecond off after fifty days of base
    time, which is enough to make a child stick out of its parent.
    """

    __slots__ = ()


def nanoseconds(microseconds: Any) -> int | None:
    """A JSON time in microseconds as nanoseconds, rounded; None if it is not a usable time."""
    if type(microseconds) is NumberText and microseconds[-4:-3] == ".":
        text = microseconds[:-4] + microseconds[-3:]
        if len(text) < 19 and text.lstrip("-").isdigit():
            return int(text)
    if type(microseconds) is int:
        return microseconds * 1000 if abs(microseconds) < TIME_LIMIT // 1000 else None
    return _from_any_number(microseconds)


def _from_any_number(microseconds: Any) -> int | None:
    if not isinstance(microseconds, str | float):
        return None
    try:
        # The float decides whether it is in range before Decimal makes an integer of it: the
        # integer of "1e999999999" would not fit in memory.
        if not abs(float(microseconds)) < TIME_LIMIT / 1000:
            return None
        return round(Decimal(microseconds) * 1000)
    except (ValueError, ArithmeticError):
        return None


def integer(value: Any, default: int = 0, low: int = -(1 << 63), high: int = (1 << 63) - 1) -> int:
    """``value`` if it is an integer (or the text of one) within bounds, else ``default``."""
    if type(value) is int:
        return value if low <= value <= high else default
    if isinstance(value, str) and len(value) < 21 and value.lstrip("-").isdecimal():
        try:
            return integer(int(value), default, low, high)
        except ValueError:
            return default
    return default


def plain(value: Any) -> Any:
    """A JSON value with :class:`NumberText` turned back into floats, at any depth JSON reached."""
    if isinstance(value, NumberText):
        return float(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value
