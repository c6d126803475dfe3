"""The parts of a running flight recorder, and the order in which they start and end."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from functools import partial
from shlex import quote
from typing import Any

import opscope._native as _native
from opscope.base.notice import notice
from opscope.errors import LifecycleError
from opscope.live.flight.dump_request import DumpLimits
from opscope.live.flight.dumps import Dumps
from opscope.live.flight.governor import Governor
from opscope.live.flight.keeper import Keeper
from opscope.live.flight.ring import RingFile, RingWindows
from opscope.live.flight.settings import FlightSettings
from opscope.live.flight.trigger import Trigger, Watched, end_triggers
from opscope.recording.compiled.listener import LoadedSites
from opscope.recording.cost import cost_of_an_operator_ns
from opscope.recording.streams.detached_trace import ProcessKnowledge
from opscope.torch_api.steps import StepClock

END_S = 60.0
"""Longest wait of dump()."""
_END_OF_ALL_S, _END_S = 60.0, 5.0
"""Longest wait for traces at the program's end: if its end kills all other processes, as in a
container; and if the writing process can outlive it."""
_HURRY_S = 5.0
"""Longest wait after an interruption."""
_PATIENCE_NS = 2_000_000_000
"""The native watch writes a dump itself if the Python thread does not answer for this long."""
_PARTS = 8
"""Windows per ``last``. The ring may be one window longer than ``last``."""


class Flight:
    """A running flight recorder; made at every start."""

    def __init__(self, settings: FlightSettings) -> None:
        native: dict[str, Any] = {}
        for trigger in settings.triggers:
            native |= trigger.settings()
        self.watch = _native.Watch(settings.last_ns, settings.max_bytes, _PATIENCE_NS, **native)
        self.steps = StepClock(self.watch)
        self.file = RingFile(settings.directory, settings.max_bytes, settings.keeper)
        self.windows = RingWindows(settings.options, self.watch, self.file)
        self.dumps = Dumps(settings.directory)
        self.limits = DumpLimits(settings.directory, settings.interval_ns, settings.disk_bytes)
        self.governor = Governor(
            settings.options,
            settings.budget,
            self.windows.collect,
            cost_of_an_operator_ns(),
            bool(_native.statistics()["can_skip_inner"]),
        )
        self._settings = settings
        self._is_patient = True
        self._knowledge = ProcessKnowledge(settings.options)
        self._loaded_sites = LoadedSites()
        self.keeper = Keeper(
            self.watch,
            self.windows,
            self.file,
            self.dumps,
            self.limits,
            self.governor,
            settings.triggers,
            self._facts,
            self._places,
            settings.last_ns / 1e9 / _PARTS,
        )

    def begin(self) -> None:
        """Start all parts, in an order that ``end`` can undo from any point."""
        with _threads_may_be_refused():
            self.watch.start()
        self.windows.open()
        self._knowledge.begin()
        self.steps.begin()
        for trigger in self._settings.triggers:
            trigger.begin(self._watched_by(trigger))
        with _threads_may_be_refused():
            self.keeper.begin()

    def end(self) -> None:
        """End all parts in reverse; may be called again after an interruption."""
        self.leave_program()
        is_patient, self._is_patient = self._is_patient, False  # an interrupted end hurries
        self.keeper.end(END_S if is_patient else _HURRY_S)
        self._knowledge.end()
        self.windows.close()
        self.file.end()
        self._wait_for_dumps(_patience_s() if is_patient else 0.0)

    def _wait_for_dumps(self, patience_s: float) -> None:
        left, orphaned = self.dumps.wait(patience_s), self.dumps.left()
        directory = self.dumps.directory
        if orphaned:
            notice(
                f"unfinished dumps: {len(orphaned)}. Their recordings are kept; write their traces "
                f"with: opscope doctor --recover {quote(str(directory))}"
            )
        if len(left) > len(orphaned):
            notice(
                f"{len(left) - len(orphaned)} dumps are still being written, by another process, "
                f"to {directory}"
            )

    def leave_program(self) -> None:
        """Remove the hooks from the program."""
        end_triggers(reversed(self._settings.triggers))
        self.steps.end()

    def _watched_by(self, trigger: Trigger) -> Watched:
        ask = partial(self.keeper.request_from, trigger)
        return Watched(ask, self.watch, self.steps.counter)

    def _places(self) -> bytes:
        return self._loaded_sites.text() if self._settings.options.compiled else b""

    def _facts(self) -> dict[str, Any]:
        settings = self._settings
        return {
            **self._knowledge.facts(),
            "requested_s": settings.last_ns / 1e9,
            "max_disk_bytes": settings.disk_bytes,
            "written_ns": time.time_ns(),
            "limited_by": self._limited_by(),
            "collected": self.governor.collected_since(time.time_ns() - self._ring_ns()),
            "ledger": [*self.governor.rows(), *self._ledger_rows()],
        }

    def _ring_ns(self) -> int:
        """Longest duration of the ring: ``last`` and two parts."""
        return self._settings.last_ns * (_PARTS + 2) // _PARTS

    def _limited_by(self) -> str:
        if self.watch.cut_by_memory:
            return f"max_memory, {self._settings.max_bytes >> 20:,} MiB"
        if self.windows.restarts:
            return "it restarted, because the names of functions and modules filled its memory"
        return "the recorder was not on for longer"

    def _ledger_rows(self) -> list[tuple[str, str, float]]:
        source = "flight recorder"
        rows = [(source, f"dumps refused: {why}", n) for why, n in self.limits.refused.items()]
        rows += [(source, f"faults: {what}", n) for what, n in self.keeper.faults.items()]
        rows.append((source, "shortened because of memory", self.watch.cut_by_memory))
        return [(name, what, float(value)) for name, what, value in rows]


@contextlib.contextmanager
def _threads_may_be_refused() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise LifecycleError(
            f"The flight recorder could not start its thread: {error}. Check the limit of "
            "threads of this user (`ulimit -u`) or container, then try again."
        ) from error


def _patience_s() -> float:
    """Longest wait for traces: long if the end of this process kills all others."""
    return _END_OF_ALL_S if 1 in (os.getpid(), os.getppid()) else _END_S
