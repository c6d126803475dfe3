"""What may make a :class:`opscope.flight_recorder` write a dump, beside a call of its ``dump``."""

from __future__ import annotations

from opscope.flight.triggers.gc_pause import GcPause
from opscope.flight.triggers.hang import Hang
from opscope.flight.triggers.memory_jump import MemoryJump
from opscope.flight.triggers.on_signal import OnSignal
from opscope.flight.triggers.out_of_memory import OutOfMemory
from opscope.flight.triggers.slow_step import SlowStep
from opscope.flight.triggers.trigger import Trigger, Watched
from opscope.flight.triggers.uncaught import UncaughtException
from opscope.flight.triggers.when import When

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
