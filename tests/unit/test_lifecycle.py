"""What begins and ends whatever interrupts it: sections, and things that are on for a while."""

import os
import signal
import threading

import pytest
from tests.support.interruptions import Interruption, places

from opscope import _native

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


class Holder:
    """A thread that is in a section until it is let go."""

    def __init__(self, section):
        self.entered, self.go_on = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=lambda: section.run(self._stay))
        self.thread.start()
        self.entered.wait()

    def _stay(self):
        self.entered.set()
        self.go_on.wait()

    def leave(self):
        self.go_on.set()
        self.thread.join()


def test_no_thread_waits_in_a_circle():
    """Each of two threads is in one section when it wants the other's."""
    sections, both = [_native.Section(), _native.Section()], threading.Barrier(2)
    done = []

    def cross(mine, others):
        def inside():
            both.wait()
            sections[others].run(lambda: done.append(mine))
            both.wait()

        sections[mine].run(inside)

    threads = [threading.Thread(target=cross, args=pair) for pair in ((0, 1), (1, 0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [0, 1]


def test_an_exception_leaves_the_section_and_undoes_it():
    section, undone = _native.Section(), []

    def fail():
        raise Interruption

    with pytest.raises(Interruption):
        section.run(fail, lambda: undone.append(True))
    assert undone == [True]
    free = threading.Thread(target=lambda: section.run(lambda: undone.append("entered")))
    free.start()
    free.join()
    assert undone == [True, "entered"]


def test_waiting_can_be_interrupted():
    section = _native.Section()
    holder = Holder(section)
    caught = threading.Event()
    main = threading.get_ident()

    def interrupt():
        while not caught.wait(0.001):
            signal.pthread_kill(main, signal.SIGUSR1)

    def handler(number, frame):
        if not caught.is_set():
            caught.set()
            raise Interruption

    before = signal.signal(signal.SIGUSR1, handler)
    sender = threading.Thread(target=interrupt)
    try:
        with pytest.raises(Interruption):
            sender.start()
            section.run(lambda: None)
    finally:
        caught.set()
        sender.join()
        signal.signal(signal.SIGUSR1, before)
        holder.leave()
    assert section.run(lambda: 7) == 7


def test_a_child_finds_free_what_another_thread_was_in():
    section = _native.Section()
    holder = Holder(section)
    child = os.fork()
    if child == 0:
        os._exit(section.run(lambda: 7))
    status = os.waitpid(child, 0)[1]
    holder.leave()
    assert os.waitstatus_to_exitcode(status) == 7
    assert section.run(lambda: 8) == 8


def test_a_child_forked_in_a_section_is_in_it():
    section = _native.Section()

    def fork():
        child = os.fork()
        if child == 0:
            return 0
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    status = section.run(fork)
    if status == 0:
        os._exit(section.run(lambda: 7))
    assert status == 7


class Switch:
    """Two things to switch on, one after the other."""

    def __init__(self):
        self.first = self.second = False
        self.forgotten = 0

    def on(self):
        self.first = True
        self.second = True

    def off(self):
        self.second = False
        self.first = False

    def forget(self):
        self.forgotten += 1

    def held(self):
        return _native.Held(self.on, self.off, self.forget)

    @property
    def state(self):
        return self.first, self.second


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of the destructor
def test_an_interrupted_opening_or_call_is_undone():
    switch = Switch()
    for place in places(lambda: switch.held().open()):
        assert switch.state == (False, False), place
    held = switch.held()
    assert held.run(lambda: switch.state) == (True, True)
    assert switch.state == (False, False)
    for place in places(lambda: held.run(lambda: None)):
        assert switch.state == (False, False), place


def test_an_interrupted_closing_is_done():
    switch = Switch()
    held = switch.held()
    held.open()
    for place in places(held.close):
        assert switch.state == (False, False), place
        held.open()
    assert place > 5


def test_what_is_no_longer_held_is_off():
    switch = Switch()
    switch.held().open()
    assert switch.state == (False, False)
    assert switch.forgotten == 1
    switch.held()  # never opened
    assert switch.forgotten == 1


def test_the_first_exception_is_the_one_that_is_seen_but_for_an_interruption():
    def fail_with(*kinds):
        remaining = list(kinds)

        def fail():
            if remaining:
                raise remaining.pop(0)

        return fail

    with pytest.raises(KeyError):
        _native.Held(fail_with(KeyError), fail_with(ValueError)).open()
    with pytest.raises(KeyboardInterrupt):
        _native.Held(fail_with(KeyError), fail_with(KeyboardInterrupt)).open()


def test_what_always_fails_is_given_up():
    def fail():
        raise ValueError("always")

    with pytest.raises(ValueError, match="always"):
        _native.Section().run(fail, fail)


def test_a_method_is_undone_when_it_is_interrupted():
    class Counted:
        def __init__(self):
            self.entered = 0

        def _enter(self):
            self.entered += 1
            return self

        def _undo(self):
            self.entered = 0

        __enter__ = _native.method(_enter, _undo)

        def __exit__(self, *exception):
            self.entered -= 1

    counted = Counted()

    def enter_and_leave():
        with counted:
            assert counted.entered == 1

    for place in places(enter_and_leave):
        assert counted.entered in (0, 1), place
        counted.entered = 0
