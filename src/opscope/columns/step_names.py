"""What the spans of a profiler's steps are called."""

from __future__ import annotations

STEP_PREFIX = "ProfilerStep#"
"""What the span of a step is called, with its number after it."""

_MOST_DIGITS = 9
"""Of the number of a step: one of 32 bits."""


def step_number(name: str) -> int | None:
    """N of ``ProfilerStep#N``; None for any other name."""
    number = name[len(STEP_PREFIX) :]
    is_number = name.startswith(STEP_PREFIX) and number.isascii() and number.isdigit()
    return int(number) if is_number and len(number) <= _MOST_DIGITS else None
