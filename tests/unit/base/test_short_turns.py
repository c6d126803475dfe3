"""While opscope's threads work the GIL is passed on sooner; then all is as the program chose."""

import os
import sys
import threading

import pytest

from opscope.base.own_thread import short_turns

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


def test_it_stays_to_the_microsecond_however_often_it_is_given_back():
    for chosen_us in range(201, 5_000, 7):
        sys.setswitchinterval((chosen_us + 0.5) / 1e6)
        for _ in range(5):
            with short_turns:
                pass
        assert round(sys.getswitchinterval() * 1e6) == chosen_us


def test_an_exception_gives_it_back():
    with pytest.raises(KeyError), short_turns:
        raise KeyError
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


def test_a_program_that_chose_less_keeps_that():
    sys.setswitchinterval(0.00005)
    with short_turns:
        assert sys.getswitchinterval() == pytest.approx(0.00005)
    assert sys.getswitchinterval() == pytest.approx(0.00005)


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
