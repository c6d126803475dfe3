"""Validated settings of a flight recorder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from opscope.errors import UsageError
from opscope.live.flight.slow_step import SlowStep
from opscope.live.flight.trigger import Hang, OnSignal, Trigger
from opscope.live.flight.uncaught_errors import OutOfMemory, UncaughtException
from opscope.recording.sources import RecordingOptions


@dataclass(frozen=True, kw_only=True)
class FlightSettings:
    """In the recorder's units."""

    last_ns: int  # how far back dumps go
    max_bytes: int  # of memory for what is recorded
    directory: Path  # where dumps go
    triggers: tuple[Trigger, ...]  # what makes them
    budget: float | None  # the share of time that recording may cost; None for whatever it does
    interval_ns: int  # between dumps of one trigger
    disk_bytes: int  # of all dumps
    options: RecordingOptions  # what is recorded
    # a process waits for the end of this one, to make a dump if that is a death
    keeper: bool = True

    def make_directory(self) -> None:
        """Have it there."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"Dumps cannot be written to {self.directory}: {error.strerror or error}. Give "
                "another directory."
            ) from error


def default_triggers() -> list[Trigger]:
    """The default: nothing that an ordinary program does makes a dump."""
    return [SlowStep(), UncaughtException(), OutOfMemory(), Hang()]


def triggers_of_a_program() -> list[Trigger]:
    """What ``opscope run`` listens to: also a signal, as nothing in the program can call dump()."""
    return [*default_triggers(), OnSignal("SIGUSR2")]


def checked_triggers(triggers: Iterable[Trigger] | None) -> tuple[Trigger, ...]:
    """What makes dumps; None: what usually does."""
    if triggers is None:
        return tuple(default_triggers())
    found = tuple(triggers) if isinstance(triggers, Iterable) else ()
    if not isinstance(triggers, Iterable) or not all(isinstance(one, Trigger) for one in found):
        raise UsageError(
            f"triggers={triggers!r} is not a list of triggers. Pass triggers of "
            "opscope.triggers, each created by a call: triggers=[triggers.SlowStep()]."
        )
    return found


_RECORD = frozenset(
    {
        "record_shapes",
        "profile_memory",
        "with_modules",
        "with_own_functions",
        "with_functions",
        "with_stack",
        "with_asyncio",
    }
)


def checked_record(record: dict[str, bool]) -> dict[str, bool]:
    """What to record beside operators and annotations."""
    unknown = sorted(record.keys() - _RECORD)
    if unknown:
        raise UsageError(
            f"A flight recorder has no argument {', '.join(unknown)}. Besides operators it can "
            f"record: {', '.join(sorted(_RECORD))}."
        )
    return record


def checked_budget(budget: float | None) -> float | None:
    """A share of the time, or None."""
    if budget is not None and not 0 < budget <= 1:
        raise UsageError(
            f"budget={budget!r} is not a share of the time. Pass a number between 0 and 1: 0.01 "
            "is 1 %."
        )
    return budget
