"""What the steps of a program took, without what opscope did between them."""

import time

import pytest

from opscope.cli.session.recording_session import StepsOfRun


@pytest.fixture
def clock(monkeypatch):
    """Moments in nanoseconds, moved by hand."""
    now = [0]
    monkeypatch.setattr(time, "monotonic_ns", lambda: now[0])
    return now


def test_what_opscope_does_at_the_end_of_a_step_is_no_time_of_the_program(clock):
    steps = StepsOfRun()

    def record():
        clock[0] += 700

    for _ in range(11):
        clock[0] += 10
        steps.step_ended(record)
    assert steps.counted() == {"ended": 11, "passed_ns": 100}

    def fail():
        record()
        raise OSError

    for _ in range(2):
        clock[0] += 10
        with pytest.raises(OSError):
            steps.step_ended(fail)
    assert steps.counted() == {"ended": 13, "passed_ns": 120}


def test_steps_beside_which_a_trace_is_made_do_not_count(clock):
    busy = [False]
    steps = StepsOfRun(lambda: busy[0])
    for number in range(9):
        busy[0] = 3 <= number < 6  # from the end of this step on
        clock[0] += 10 if number < 4 or number > 6 else 90
        steps.step_ended(lambda: None)
    assert steps.counted() == {"ended": 6, "passed_ns": 50}
