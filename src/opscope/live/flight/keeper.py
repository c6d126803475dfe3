"""The recorder's Python thread, which rotates the ring and handles requests for dumps."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import opscope._native as _native
from opscope.base.daemon_thread import OwnThread, let_others_run, short_turns
from opscope.base.notice import notice
from opscope.live.flight.dump_request import DumpLimits, DumpRequest, Reason
from opscope.live.flight.dumps import Dumps
from opscope.live.flight.governor import Governor, OwnCost
from opscope.live.flight.ring import RingFile, RingWindows
from opscope.live.flight.trigger import LIMIT_S, PolledCondition, Trigger
from opscope.live.flight.write_dump import place_of
from opscope.recording.listeners import processor_counts


class Keeper:
    """One thread, from ``begin`` to ``end``. Errors of a kind are printed once, and counted."""

    def __init__(
        self,
        watch: _native.Watch,
        windows: RingWindows,
        file: RingFile,
        dumps: Dumps,
        limits: DumpLimits,
        governor: Governor,
        triggers: Iterable[Trigger],
        facts: Callable[[], dict[str, Any]],
        places: Callable[[], bytes],
        part_s: float,
    ) -> None:
        self._watch, self._windows, self._dumps = watch, windows, dumps
        self._file = file
        self._limits, self._governor = limits, governor
        self._facts, self._places = facts, places
        self._part_s = part_s
        polled = (trigger for trigger in triggers if trigger.every_s)
        self._conditions = [PolledCondition(t, self.request_from, self._report) for t in polled]
        self._requests: dict[int, DumpRequest] = {}
        self._rotate_at_s = 0.0
        self._cost_at_s = 0.0
        self._armed: Path | None = None
        self._emergencies = 0
        self._armed_level = governor.level
        self._thread = OwnThread(self._run, watch.stop)
        self.faults: Counter[str] = Counter()
        self.own_processor_ns = 0

    def begin(self) -> None:
        """Start the thread; the first window has to be open."""
        now_s = time.monotonic()
        self._rotate_at_s = now_s + self._part_s
        self._cost_at_s = now_s
        self._arm()
        self._thread.start()
        for condition in self._conditions:
            condition.begin()

    def end(self, patience_s: float) -> None:
        """Answer pending requests, then end."""
        self._end_conditions(time.monotonic() + min(patience_s, LIMIT_S))
        until_s = time.monotonic() + patience_s
        is_alive = self._thread.is_alive()
        for request in list(self._requests.values()) if is_alive else ():
            request.done.wait(max(until_s - time.monotonic(), 0))
        self._watch.stop()
        if is_alive:
            self._thread.join(patience_s)

    def _end_conditions(self, until_s: float) -> None:
        for condition in self._conditions:
            condition.request_end()
        for condition in self._conditions:
            condition.join(until_s)

    def request_from(self, trigger: Trigger, detail: str) -> None:
        """Request the dump of a trigger."""
        self.request_dump(Reason(trigger.name, detail))

    def request_dump(self, reason: Reason, is_called_for: bool = False) -> DumpRequest:
        """Request a dump; returns at once. Any thread may call it."""
        request = DumpRequest(reason, is_called_for)
        number = _native.new_number()
        self._requests[number] = request
        if not self._watch.request(number, reason.as_json()):
            del self._requests[number]
            request.refusal = "too many requests are waiting"
            self._limits.refused[request.refusal] += 1
            request.done.set()
        return request

    def _run(self) -> None:
        while True:
            left_ns = max(int((self._next_s() - time.monotonic()) * 1e9), 0)
            news, value, age_ns = self._watch.wait(left_ns)
            if news == "stopped":
                break
            try:
                with short_turns:
                    self._finish_answered()
                    self._handle(news, value, age_ns)
                    self._run_due_tasks()
            except BaseException as error:
                self._report("the flight recorder", error)
            self.own_processor_ns = time.thread_time_ns()
        for request in self._requests.values():
            request.done.set()

    def _next_s(self) -> float:
        return min(self._rotate_at_s, self._cost_at_s)

    def _handle(self, news: str, value: int, age_ns: int) -> None:
        if news == "request":
            request = self._requests.pop(value, None)
            if request is not None:
                self._dump(request)
        elif news == "rotate":
            self._rotate()
        elif news != "nothing":
            reason = Reason.of_news(news, value, time.time_ns() - age_ns)
            self._dump(DumpRequest(reason, is_called_for=news == "signal"))

    def _finish_answered(self) -> None:
        """Finish requests that the native watch wrote while Python was blocked."""
        for number in self._watch.take_answered():
            request = self._requests.pop(number, None)
            if request is not None and self._armed is not None:
                request.path = place_of(self._armed, request.reason, os.getpid())
                request.done.set()

    def _run_due_tasks(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._rotate_at_s:
            self._rotate()
        if now_s >= self._cost_at_s:
            processor_ns = self.own_processor_ns + self._watch.processor_ns
            self._governor.look(_own_cost(processor_ns))
            self._cost_at_s = now_s + self._governor.look_after_s
            if self._file.wants_window():
                self._rotate()
            if self._governor.level != self._armed_level:
                self._armed_level = self._governor.level
                self._arm()

    def _rotate(self) -> None:
        self._rotate_at_s = time.monotonic() + self._part_s
        self._windows.open()
        self._arm()

    def _arm(self) -> None:
        if self._armed is None or self._watch.emergencies != self._emergencies:
            self._emergencies = self._watch.emergencies
            self._armed = self._dumps.spool()
        facts, places = self._facts(), self._places()
        let_others_run()
        self._file.describe(facts, places)
        self._dumps.arm(self._watch, self._armed, facts, places)

    def _dump(self, request: DumpRequest) -> None:
        reason = request.reason
        request.refusal = self._limits.refusal(reason.kind, request.is_called_for)
        if request.refusal:
            if self._limits.refused[request.refusal] == 1:
                notice(f"no dump for {reason}: {request.refusal}; further ones are only counted")
            return request.done.set()
        let_others_run()
        # The ring may have dropped its first window since.
        snapshot = next(filter(None, map(_native.snapshot_window, self._watch.windows)), 0)
        try:
            if snapshot:
                places = self._places()
                request.path = self._dumps.write(self._watch, snapshot, self._facts, places, reason)
                let_others_run()
                notice(f"dump for {reason}: {request.path}")
        except OSError as error:
            request.refusal = f"it could not be written ({error.strerror or error})"
            self._report("a dump", error)
        finally:
            _native.discard_window(snapshot)
            request.done.set()

    def _report(self, what: str, error: BaseException) -> None:
        self.faults[what] += 1
        if self.faults[what] == 1:
            why = str(error) or type(error).__name__
            notice(f"{what} failed: {why}. The program is not affected; recording continues.")


def _own_cost(processor_ns: int) -> OwnCost:
    counts, now_ns = processor_counts(os.getpid()), time.monotonic_ns()
    waited_ns = counts[1] if counts is not None else 0
    return OwnCost(now_ns - waited_ns, now_ns, _native.record_count(), processor_ns)
