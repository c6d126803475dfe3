"""ProgramSteps of a program that take what a test says."""

from __future__ import annotations

from collections.abc import Callable

from opscope.flight.steps import NEVER


class SimulatedAlarm:
    """As :class:`opscope.flight.steps.StepAlarm`."""

    def __init__(self, listener: Callable[[int], None]) -> None:
        self.listener = listener
        self.at = self.above_ns = NEVER


class SimulatedSteps:
    """As :class:`opscope.flight.steps.ProgramSteps`."""

    def __init__(self) -> None:
        self.count = 0
        self._known_ns: list[int] = []
        self._alarms: list[SimulatedAlarm] = []

    @property
    def durations_ns(self) -> list[int]:
        return self._known_ns[-200:]

    def alarm(self, listener: Callable[[int], None]) -> SimulatedAlarm:
        self._alarms.append(SimulatedAlarm(listener))
        return self._alarms[-1]

    def end_step(self, took_ns: int = 0) -> None:
        """Of so many nanoseconds; 0 where nobody knows."""
        self.count += 1
        if took_ns:
            self._known_ns.append(took_ns)
        for alarm in self._alarms:
            if self.count >= alarm.at or took_ns > alarm.above_ns:
                alarm.listener(took_ns)
