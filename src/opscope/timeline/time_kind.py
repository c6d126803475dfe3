"""Whether the time of a name is work: waiting, steps and our own hooks never rank as that."""

from __future__ import annotations

from enum import Enum

from opscope.columns.causes import Cause
from opscope.columns.names import STEP_PREFIX
from opscope.timeline.waits import cause_of_name


class TimeKind(str, Enum):
    """What the own time of a name is."""

    WORK = "work"
    WAITING = "waiting"
    STEP = "step"  # the time of a step is that of what runs in it
    RECORDING = "recording"  # a hook that recording needs


def time_kind(name: str) -> TimeKind:
    """What the own time of events of this name is."""
    if name.startswith((STEP_PREFIX, "ProfilerStep*")):
        return TimeKind.STEP
    said = cause_of_name(name)
    if said.waits_for:
        return TimeKind.WAITING
    return TimeKind.RECORDING if said.cause is Cause.PROFILER else TimeKind.WORK
