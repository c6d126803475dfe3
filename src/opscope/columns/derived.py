"""What is computed of a recording once, and kept with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from opscope.columns.trace_data import TraceData

_Value = TypeVar("_Value")


def derived(compute: Callable[[TraceData], _Value]) -> Callable[[TraceData], _Value]:
    """Decorates a function of a trace: the same object for the same trace, gone with that.

    What is kept must not refer to the trace, which would then stay until Python collects cycles.
    Without a lock: a signal handler or a forked child would wait for what it interrupted. Two
    threads may both compute it; the first result is kept.
    """

    @wraps(compute)
    def kept(trace: TraceData) -> _Value:
        return derive(trace, compute, lambda: compute(trace))

    return kept


def derive(trace: TraceData, of: object, compute: Callable[[], _Value]) -> _Value:
    """The same of what takes more than the trace, which always is the same for it.

    Args:
        trace: that it is kept with.
        of: tells it from what others keep there.
        compute: makes it.
    """
    kept = trace._derived
    if of not in kept:
        kept.setdefault(of, compute())
    found: _Value = kept[of]
    return found
