"""A counter of steps of a program that take what a test says."""

from __future__ import annotations

from collections.abc import Callable

from opscope.torch_api.steps import NEVER


class SimulatedAlarm:
    """As :class:`opscope._native.StepAlarm`."""

    def __init__(self, listener: Callable[[int], None]) -> None:
        self.listener = listener
        self.at = self.own_above_ns = NEVER


class SimulatedSteps:
    """As :class:`opscope._native.StepCounter`."""

    def __init__(self) -> None:
        self.count = 0
        self._known_ns: list[int] = []
        self._own_ns: list[int] = []
        self.waited_ns: int | None = None
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

    def end_step(self, took_ns: int = 0, waited_ns: int | None = None) -> None:
        """Of so many nanoseconds; 0 where nobody knows. What it waited; None where nobody knows."""
        self.count += 1
        self.waited_ns = waited_ns
        own_ns = took_ns - (waited_ns or 0)
        if took_ns:
            self._known_ns.append(took_ns)
            self._own_ns.append(own_ns)
        for alarm in self._alarms:
            if self.count >= alarm.at or own_ns > alarm.own_above_ns:
                alarm.listener(took_ns)
