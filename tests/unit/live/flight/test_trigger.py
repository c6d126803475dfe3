"""Code of the program's that a flight recorder calls: nothing waits for it for long."""

import threading
import time
from collections import Counter

import pytest

from opscope.live.flight.trigger import PolledCondition, Trigger, When, end_triggers


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
