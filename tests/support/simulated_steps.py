"""ProgramSteps of a program that take what a test says."""

from __future__ import annotations

from collections.abc import Callable

from opscope.flight.steps import NEVER, StepWaits


class SimulatedAlarm:
    """As :class:`opscope.flight.steps.StepAlarm`."""

    def __init__(self, listener: Callable[[int], None]) -> None:
        self.listener = listener
        self.at = self.above_ns = self.own_above_ns = NEVER


class SimulatedSteps:
    """As :class:`opscope.flight.steps.ProgramSteps`."""

    def __init__(self) -> None:
        self.count = 0
        self._known_ns: list[int] = []
        self._own_ns: list[int] = []
        self.waits: StepWaits | None = None
        self._alarms: list[SimulatedAlarm] = []

    @property
    def durations_ns(self) -> list[int]:
        return self._known_ns[-200:]

    @property
    def own_durations_ns(self) -> list[int]:
        return self._own_ns[-200:]

    def alarm(self, listener: Callable[[int], None]) -> SimulatedAlarm:
        self._alarms.append(SimulatedAlarm(listener))
        return self._alarms[-1]

    def end_step(self, took_ns: int = 0, waits: StepWaits | None = None) -> None:
        """Of so many nanoseconds; 0 where nobody knows. What it waited; None where nobody knows."""
        self.count += 1
        self.waits = waits
        own_ns = took_ns - (waits.others_ns if waits is not None else 0)
        if took_ns:
            self._known_ns.append(took_ns)
            self._own_ns.append(own_ns)
        for alarm in self._alarms:
            is_long = took_ns > alarm.above_ns or own_ns > alarm.own_above_ns
            if self.count >= alarm.at or is_long:
                alarm.listener(took_ns)
