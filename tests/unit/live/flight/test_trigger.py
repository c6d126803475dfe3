"""Code of the program's that a flight recorder calls: nothing waits for it for long."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest

from opscope.errors import UsageError
from opscope.live.flight.trigger import (
    PolledCondition,
    SlowStep,
    Trigger,
    Watched,
    When,
    end_triggers,
)
from opscope.torch_api.steps import NEVER


class Recorder:
    """What a condition has of one."""

    def __init__(self):
        self.dumps, self.faults = [], Counter()
        self.has_dumped = threading.Event()

    def dump(self, trigger, detail):
        self.dumps.append((trigger.name, detail))
        self.has_dumped.set()

    def failed(self, what, error):
        self.faults[what, type(error).__name__] += 1
        self.has_dumped.set()

    def asking(self, trigger):
        return PolledCondition(trigger, self.dump, self.failed)


@pytest.fixture
def recorder():
    return Recorder()


def ended(condition):
    condition.request_end()
    condition.join(time.monotonic() + 20)


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_what_raises_or_says_no_text_is_counted_and_asked_again(recorder, error):
    class Odd(Trigger):
        name, every_s = "odd", 0.01
        said = [error, 17, "x" * 5000]

        def look(self):
            said = self.said.pop(0) if self.said else None
            if said is error:
                raise error
            return said

    asking = recorder.asking(Odd())
    asking.begin()
    while not recorder.dumps:
        assert recorder.has_dumped.wait(20)
        recorder.has_dumped.clear()
    ended(asking)
    what = "the trigger 'odd'"
    assert recorder.faults == {(what, error.__name__): 1, (what, "TypeError"): 1}
    assert recorder.dumps == [("odd", "x" * 1000)]  # a long one is cut


def test_one_that_waits_is_called_once_and_counted_at_the_end(recorder):
    called, continues, calls = threading.Event(), threading.Event(), []

    def condition():
        calls.append(1)
        called.set()
        continues.wait()
        return "late"

    asking = recorder.asking(When(condition, every="10ms", name="queue"))
    asking.begin()
    assert called.wait(20)
    asking.request_end()
    asking.join(time.monotonic())
    assert recorder.faults == {("the trigger 'queue'", "NotReturnedError"): 1}
    continues.set()
    asking.join(time.monotonic() + 20)
    assert calls == [1] and recorder.dumps == []  # what it says after the end is nobody's


def test_a_trigger_that_fails_to_end_keeps_no_other_from_it():
    ends = []

    class Fails(Trigger):
        def end(self):
            ends.append("fails")
            raise SystemExit

    class Ours(Trigger):
        def end(self):
            ends.append("ours")

    end_triggers([Ours(), Fails(), Ours()])
    assert ends == ["ours", "fails", "ours"]


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


MS = 1_000_000


def details_of(trigger, steps_of_program):
    """What dumps say; steps are what they take in ms, or that and what they waited."""
    dumped, steps = [], SimulatedSteps()
    trigger.begin(Watched(dumped.append, None, steps))
    steps.end_step()  # of the first nobody knows when it began
    for step in steps_of_program:
        took_ms, waited_ms = step if isinstance(step, tuple) else (step, None)
        steps.end_step(int(took_ms * MS), None if waited_ms is None else int(waited_ms * MS))
    trigger.end()
    return dumped


EVERY_FIFTH = ([100] * 4 + [300]) * 8
STARVED = [(100, 0)] * 30


@pytest.mark.parametrize(
    ("given", "steps", "slow"),
    [
        ({"warm_up": 20}, [5000] * 3 + [100] * 15 + [900], []),  # of the warm-up
        ({}, [100] * 30 + [250] * 300, []),
        ({}, [100] * 30 + [250] * 300 + [700, 900], [333]),  # later steps are normal too
        ({}, [1] * 30 + [10, 40, 52], [34]),  # short ones may take ten times as long
        ({"quantile": 0.5, "factor": 2, "warm_up": 20}, EVERY_FIFTH, [21, 26, 31, 36, 41]),
        ({"quantile": 0.9, "factor": 2, "warm_up": 20}, EVERY_FIFTH, []),
        ({}, [(400, 300)] * 30 + [(800, 300)], [32]),  # the limit is without waiting
        ({}, [*STARVED, (9500, 9000)], []),  # of waiting something is known only roughly
        ({}, [*STARVED, (11000, 9000)], [32]),
    ],
)
def test_which_steps_are_slow(given, steps, slow):
    assert [int(one.split()[1]) for one in details_of(SlowStep(**given), steps)] == slow


def test_what_a_dump_says_of_waiting():
    (said,) = details_of(SlowStep(), [(100, 0)] * 30 + [(900, 500)])
    assert said == (
        "step 32 took 900.0 ms (500.0 ms of them waiting for a CPU), the limit was 300.0 ms"
    )
    (said,) = details_of(SlowStep(), [100] * 30 + [900])
    assert "(its waits for a CPU are unknown)" in said


@pytest.mark.parametrize("wrong", [{"factor": 1}, {"quantile": 1.5}, {"warm_up": 0}])
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(UsageError, match="SlowStep"):
        SlowStep(**wrong)
