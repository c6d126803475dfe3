"""``flight_recorder``: records all the time, keeps the last seconds, and dumps them on an event."""

from __future__ import annotations

import atexit
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import opscope._native as _native
from opscope.base.quantity_text import count_bytes, nanoseconds
from opscope.errors import LifecycleError
from opscope.live.flight.dump_request import DumpRequest, Reason
from opscope.live.flight.dumps import Dumps
from opscope.live.flight.flight import END_S, Flight
from opscope.live.flight.governor import LevelChange
from opscope.live.flight.settings import (
    FlightSettings,
    checked_budget,
    checked_record,
    checked_triggers,
)
from opscope.live.flight.trigger import Trigger
from opscope.recording.cost import cost_by_kind, cost_of_an_operator_ns
from opscope.recording.sources import prepare_sources
from opscope.torch_api.activities import ChosenActivities
from opscope.torch_api.settings import ProfileSettings

_running: set[flight_recorder] = set()
"""Running recorders, which a forked child has to reset."""


@dataclass(frozen=True, kw_only=True)
class FlightStatus:
    """The state of a flight recorder.

    Attributes:
        running: whether it is started and not stopped.
        level: the current level: steps, outermost, operators, arguments, stacks, or nothing.
        requested_s: requested duration of the ring.
        held_s: current duration of the ring.
        used_bytes: memory of all recordings in this process.
        own_share: share of the time that recording took in the last second, or since the level
            changed.
        steps: number of steps so far.
        dumps: written traces.
        refused: number of dumps refused since the last start, by reason.
        faults: number of internal errors since the last start, by kind.
        changes: changes of the level by the governor.
    """

    running: bool
    level: str
    requested_s: float
    held_s: float
    used_bytes: int
    own_share: float
    steps: int
    dumps: tuple[Path, ...]
    refused: dict[str, int]
    faults: dict[str, int]
    changes: tuple[LevelChange, ...]


class flight_recorder:
    """Keeps the last ``last`` of the program in a ring, and writes it as a trace on triggers.

    It runs between ``start`` and ``stop`` or in a ``with`` block. A separate process writes dumps;
    recording continues, and the program's threads do not stop.

    Args:
        last: how far back a dump goes: seconds, or a text such as ``"30s"``, ``"5min"``.
        max_memory: memory limit of the ring. If ``last`` does not fit, dumps cover less time, and
            say so.
        directory: folder for dumps; created at the start.
        triggers: triggers of dumps (:mod:`opscope.triggers`); None for slow steps, uncaught
            exceptions, lack of memory, and two minutes without a step.
        budget: maximum overhead as a share of the time; recording is reduced to stay below. None:
            no limit.
        at_most_every: minimum time between two dumps of the same trigger.
        max_disk: maximum size of all dumps in ``directory``.
        keeper: start a watchdog process that writes a dump if this process is killed, crashes, or
            calls ``os._exit`` with a code other than 0. False: the ring is lost then.
        record: data to record besides operators and annotations, as in :class:`opscope.profile`:
            ``record_shapes``, ``profile_memory``, ``with_modules``, ``with_own_functions``,
            ``with_functions``, ``with_stack``, ``with_asyncio``.

    Raises:
        UsageError: an argument is invalid.
    """

    def __init__(
        self,
        last: str | float = "30s",
        *,
        max_memory: str | int = "256MiB",
        directory: str | os.PathLike[str] = "opscope-dumps",
        triggers: Sequence[Trigger] | None = None,
        budget: float | None = 0.01,
        at_most_every: str | float = "60s",
        max_disk: str | int = "2GiB",
        keeper: bool = True,
        **record: bool,
    ) -> None:
        self._settings = FlightSettings(
            last_ns=nanoseconds(last, "last="),
            max_bytes=count_bytes(max_memory, "max_memory="),
            directory=Path(os.path.abspath(directory)),
            triggers=checked_triggers(triggers),
            budget=checked_budget(budget),
            interval_ns=nanoseconds(at_most_every, "at_most_every="),
            disk_bytes=count_bytes(max_disk, "max_disk="),
            options=ProfileSettings.of(checked_record(record)).recording_options(
                ChosenActivities()
            ),
            keeper=bool(keeper),
        )
        self._flight: Flight | None = None
        self._ending: Flight | None = None  # set until an end is complete
        self._refused: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()
        self._held = _native.Held(self._begin, self._end)

    def start(self) -> None:
        """Start recording. No effect if already started.

        Raises:
            BridgeError: the recorder cannot be set up.
            LifecycleError: torch refused the callbacks, or the system refused a thread.
            UsageError: the directory is not writable, or a trigger cannot be set up.
        """
        if self.running:
            return
        prepare_sources()
        cost_of_an_operator_ns()
        cost_by_kind(self._settings.options)
        self._settings.make_directory()
        self._held.open()

    def stop(self) -> None:
        """Stop recording, and wait for running dumps. No effect while stopped."""
        self._held.close()

    def dump(self, reason: str = "", wait: bool = False) -> Path:
        """Write a dump of the ring; returns the path of its trace.

        Args:
            reason: a few words, stored in the trace.
            wait: wait until the trace is written.

        Raises:
            LifecycleError: the recorder does not run, or the dump was refused.
        """
        flight = self._flight
        if flight is None:
            raise LifecycleError(
                "The flight recorder is not running. Call start(), or dump inside its `with` block."
            )
        request = flight.keeper.request_dump(Reason("request", reason), is_called_for=True)
        request.done.wait(END_S)
        if request.path is None:
            raise LifecycleError(_no_dump(request))
        if wait:
            flight.dumps.wait(END_S)
        return request.path

    def step(self) -> None:
        """End a step; for programs whose steps are not those of an optimizer."""
        flight = self._flight
        if flight is not None:  # _begin() replaces this method while the recorder runs
            flight.steps.announced()

    @property
    def running(self) -> bool:
        """Whether it is started and not stopped."""
        return self._held.is_open

    def status(self) -> FlightStatus:
        """Current level, memory, overhead and counters."""
        flight = self._flight
        statistics = _native.statistics()
        return FlightStatus(
            running=flight is not None,
            level=flight.governor.level if flight else "nothing",
            requested_s=self._settings.last_ns / 1e9,
            held_s=flight.watch.held_ns / 1e9 if flight else 0.0,
            used_bytes=statistics["used_bytes"],
            own_share=flight.governor.share if flight else 0.0,
            steps=flight.steps.counter.count if flight else 0,
            dumps=tuple(Dumps(self._settings.directory).written()),
            refused=dict(self._refused),
            faults=dict(self._faults),
            changes=tuple(flight.governor.changes) if flight else (),
        )

    def _enter(self) -> flight_recorder:
        self.start()
        return self

    def _exit(self, *_: object) -> None:
        self.stop()

    __enter__ = _native.method(_enter, stop)
    __exit__ = _native.method(_exit, stop)

    def _begin(self) -> None:
        self._flight = Flight(self._settings)
        self._refused, self._faults = self._flight.limits.refused, self._flight.keeper.faults
        _running.add(self)  # before a thread starts, for a child that is forked at any moment
        self._flight.begin()
        # The program's calls of step() now reach the native function directly.
        vars(self)["step"] = self._flight.steps.announced
        atexit.register(self._held.close)

    def _end(self) -> None:
        self._ending = self._flight or self._ending
        self._flight = None
        vars(self).pop("step", None)
        atexit.unregister(self._held.close)
        if self._ending is not None:
            self._ending.end()
            self._ending = None
        _running.discard(self)

    def _forked(self) -> None:
        """In a forked child, undo changes of Python objects; everything else is the parent's."""
        flight = self._flight or self._ending
        self._flight = self._ending = None
        vars(self).pop("step", None)
        if flight is not None:
            flight.watch.leave_to_parent()
            flight.leave_program()
            flight.file.leave_to_parent()
        self._held = _native.Held(self._begin, self._end)


def _no_dump(request: DumpRequest) -> str:
    why = request.refusal or "the recorder was stopped"
    return f"No dump was made: {why}. Free space or wait, then call dump() again."


def running_recorders() -> list[flight_recorder]:
    """Running flight recorders of this process."""
    return [recorder for recorder in list(_running) if recorder.running]


def _forked() -> None:
    for recorder in list(_running):
        recorder._forked()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
