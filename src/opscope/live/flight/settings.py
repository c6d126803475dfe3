"""Validated settings of a flight recorder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from opscope.errors import UsageError
from opscope.live.flight.trigger import Hang, OnSignal, SlowStep, Trigger
from opscope.live.flight.uncaught_errors import OutOfMemory, UncaughtException
from opscope.recording.sources import RecordingOptions, switches


@dataclass(frozen=True, kw_only=True)
class FlightSettings:
    """Settings in the recorder's units."""

    last_ns: int  # how far back dumps go
    max_bytes: int  # memory limit of the ring
    directory: Path  # folder of the dumps
    triggers: tuple[Trigger, ...]
    budget: float | None  # largest share of the time; None: no limit
    interval_ns: int  # minimum time between dumps of one trigger
    disk_bytes: int  # limit of all dumps
    options: RecordingOptions  # what is recorded
    keeper: bool = True  # start a process that makes a dump if this one is killed

    def make_directory(self) -> None:
        """Create the folder of the dumps."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"Dumps cannot be written to {self.directory}: {error.strerror or error}. Give "
                "another directory."
            ) from error


def default_triggers() -> list[Trigger]:
    """Default triggers, which an ordinary program does not set off."""
    return [SlowStep(), UncaughtException(), OutOfMemory(), Hang()]


def triggers_of_a_program() -> list[Trigger]:
    """Triggers of ``opscope run``: the default ones, and a signal in place of ``dump()``."""
    return [*default_triggers(), OnSignal("SIGUSR2")]


def checked_triggers(triggers: Iterable[Trigger] | None) -> tuple[Trigger, ...]:
    """``triggers`` as a tuple, or the default ones; UsageError if they are invalid."""
    if triggers is None:
        return tuple(default_triggers())
    checked = tuple(triggers) if isinstance(triggers, Iterable) else ()
    if not isinstance(triggers, Iterable) or not all(isinstance(one, Trigger) for one in checked):
        raise UsageError(
            f"triggers={triggers!r} is not a list of triggers. Pass triggers of "
            "opscope.triggers, each created by a call: triggers=[triggers.SlowStep()]."
        )
    return checked


_RECORD = {switch.parameter for switch in switches() if switch.flag}


def checked_record(record: dict[str, bool]) -> dict[str, bool]:
    """``record`` unchanged; UsageError for an unknown option."""
    unknown = sorted(record.keys() - _RECORD)
    if unknown:
        raise UsageError(
            f"A flight recorder has no argument {', '.join(unknown)}. Besides operators it can "
            f"record: {', '.join(sorted(_RECORD))}."
        )
    return record


def checked_budget(budget: float | None) -> float | None:
    """``budget`` unchanged; UsageError unless it is None or between 0 and 1."""
    if budget is not None and not 0 < budget <= 1:
        raise UsageError(
            f"budget={budget!r} is not a share of the time. Pass a number between 0 and 1: 0.01 "
            "is 1 %."
        )
    return budget
