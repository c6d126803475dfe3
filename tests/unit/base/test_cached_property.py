"""Attributes computed once, without a lock."""

import threading

from opscope.base.cached_property import cached_property


class Counted:
    def __init__(self):
        self.calls = 0

    @cached_property
    def value(self):
        """What it is."""
        self.calls += 1
        return [self.calls]


def test_it_is_computed_when_looked_at_and_kept():
    counted = Counted()
    assert counted.calls == 0
    assert counted.value is counted.value
    assert counted.calls == 1
    assert Counted().value is not counted.value
    assert Counted.value.__doc__ == "What it is."


def test_looked_at_while_it_is_computed():
    """As a signal handler does: what it was given stays."""

    class Looked:
        depth = 0

        @cached_property
        def value(self):
            self.depth += 1
            return self.value if self.depth == 1 else object()

    looked = Looked()
    assert looked.value is looked.value


def test_nobody_waits_for_who_computes_another_objects():
    entered, go_on = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, waits):
            self.waits = waits

        @cached_property
        def value(self):
            if self.waits:
                entered.set()
                go_on.wait()
            return 7

    thread = threading.Thread(target=lambda: Slow(True).value)
    thread.start()
    entered.wait()
    assert Slow(False).value == 7
    go_on.set()
    thread.join()
