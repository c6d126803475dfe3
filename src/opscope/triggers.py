"""What may make a :class:`opscope.flight_recorder` write a dump, beside a call of its ``dump``."""

from __future__ import annotations

from opscope.live.flight.triggers.gc_pause import GcPause
from opscope.live.flight.triggers.hang import Hang
from opscope.live.flight.triggers.memory_jump import MemoryJump
from opscope.live.flight.triggers.on_signal import OnSignal
from opscope.live.flight.triggers.out_of_memory import OutOfMemory
from opscope.live.flight.triggers.slow_step import SlowStep
from opscope.live.flight.triggers.trigger import Trigger, Watched
from opscope.live.flight.triggers.uncaught import UncaughtException
from opscope.live.flight.triggers.when import When

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
