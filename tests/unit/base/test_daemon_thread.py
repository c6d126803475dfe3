"""Threads of opscope's own end before Python does, and none that Python ends aborts the program."""

import os
import sys
import threading

import pytest

from opscope.base.daemon_thread import short_turns
from support.processes import run_python


def run(program):
    """How a program of its own ended: its exit code, and what it printed."""
    done = run_python("-c", program)
    return done.returncode, done.stdout + done.stderr


IS_ASKED = """
import atexit, threading
ending, ended = threading.Event(), threading.Event()
from opscope.base.daemon_thread import OwnThread
def function():
    ending.wait()
    print("asked")
OwnThread(function, ending.set).start()
atexit.register(lambda: print("of the program"))
"""


def test_at_exit_it_is_asked_after_the_program_s_own_functions():
    assert run(IS_ASKED) == (0, "of the program\nasked\n")


DOES_NOT_END = """
import time
from opscope.base.daemon_thread import OwnThread
def function():
    while True:
        time.sleep(0.0001)
OwnThread(function, lambda: None).start()
"""


def test_one_that_does_not_end_holds_no_process_up_for_long():
    assert run(DOES_NOT_END) == (0, "")


INSIDE = """
import _thread, threading
from opscope import _native
inside = threading.Semaphore(0)
def stay():
    inside.release()
    while True:
        pass
def fail():
    raise ValueError
class Entered:
    __enter__ = _native.method(fail, lambda self: stay())
calls = [
    _native.Held(stay, bool).open,
    lambda: _native.Held(bool, stay).run(bool),
    lambda: _native.Held(bool, bool).run(stay),
    lambda: _native.Section().run(stay),
    lambda: _native.Section().run(fail, stay),
    _native.AroundCall(stay, bool, bool),
    _native.AroundCall(bool, stay, bool),
    _native.AroundCall(bool, bool, lambda *_: stay()),
    Entered().__enter__,
]
for call in calls:
    _thread.start_new_thread(call, ())
    inside.acquire()
"""


def test_threads_that_python_ends_in_functions_that_are_called_from_native_code():
    assert run(INSIDE) == (0, "")


CHOSEN_S = 0.004
CHOSEN = pytest.approx(CHOSEN_S)


@pytest.fixture(autouse=True)
def chosen():
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(CHOSEN_S)
    yield
    sys.setswitchinterval(before_s)


def test_the_interval_is_short_inside_and_the_program_s_afterwards():
    with short_turns:
        assert sys.getswitchinterval() < 0.001
    assert sys.getswitchinterval() == CHOSEN


def test_it_is_given_back_when_the_last_of_several_threads_leaves():
    entered, leaving = threading.Event(), threading.Event()

    def stay():
        with short_turns:
            entered.set()
            leaving.wait()

    other = threading.Thread(target=stay)
    with short_turns:
        other.start()
        entered.wait()
    assert sys.getswitchinterval() < 0.001
    leaving.set()
    other.join()
    assert sys.getswitchinterval() == CHOSEN


def test_what_the_program_chooses_meanwhile_stays():
    with short_turns:
        sys.setswitchinterval(0.002)
    assert sys.getswitchinterval() == pytest.approx(0.002)


def test_a_forked_child_has_the_program_s():
    with short_turns:
        child = os.fork()
        if not child:
            is_given_back = sys.getswitchinterval() == CHOSEN
            with short_turns:
                is_given_back &= sys.getswitchinterval() < 0.001
            os._exit(0 if is_given_back and sys.getswitchinterval() == CHOSEN else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sys.getswitchinterval() == CHOSEN
