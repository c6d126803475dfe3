"""Triggers that make a :class:`opscope.flight_recorder` write a dump."""

from __future__ import annotations

from opscope.live.flight.trigger import (
    GcPause,
    Hang,
    MemoryJump,
    OnSignal,
    SlowStep,
    Trigger,
    Watched,
    When,
)
from opscope.live.flight.uncaught_errors import OutOfMemory, UncaughtException

__all__ = [
    "GcPause",
    "Hang",
    "MemoryJump",
    "OnSignal",
    "OutOfMemory",
    "SlowStep",
    "Trigger",
    "UncaughtException",
    "Watched",
    "When",
]
