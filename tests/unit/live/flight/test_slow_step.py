"""Which steps are slow, by the steps before them."""

import pytest

from opscope.errors import UsageError
from opscope.live.flight.slow_step import SlowStep
from opscope.live.flight.trigger import Watched
from support.simulated_steps import SimulatedSteps

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


def dumps_of(trigger, steps_of_program):
    """The numbers of the steps that made a dump."""
    return [int(one.split()[1]) for one in details_of(trigger, steps_of_program)]


def test_what_is_normal_is_learnt_from_later_steps_too():
    slower = [100] * 30 + [250] * 300
    assert dumps_of(SlowStep(), slower) == []
    assert dumps_of(SlowStep(), [*slower, 700, 900]) == [333]


def test_short_steps_may_take_ten_times_as_long():
    assert dumps_of(SlowStep(), [1] * 30 + [10, 40, 52]) == [34]


def test_the_quantile_is_that_of_the_steps_before():
    every_fifth = ([100] * 4 + [300]) * 8
    assert dumps_of(SlowStep(quantile=0.5, factor=2, warm_up=20), every_fifth) == [
        21,
        26,
        31,
        36,
        41,
    ]
    assert dumps_of(SlowStep(quantile=0.9, factor=2, warm_up=20), every_fifth) == []


@pytest.mark.parametrize("wrong", [{"factor": 1}, {"quantile": 1.5}, {"warm_up": 0}])
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(UsageError, match="SlowStep"):
        SlowStep(**wrong)


def test_steps_without_waiting_make_the_limit_and_what_is_left_without_it_may_be_slow():
    (said,) = details_of(SlowStep(), [(100, 0)] * 30 + [(900, 500)])
    assert said == (
        "step 32 took 900.0 ms (500.0 ms of them waiting for a CPU), the limit was 300.0 ms"
    )
    assert dumps_of(SlowStep(), [(400, 300)] * 30 + [(800, 300)]) == [32]


def test_where_nobody_counts_waiting_all_time_counts_and_the_dump_says_so():
    (said,) = details_of(SlowStep(), [100] * 30 + [900])
    assert "(its waits for a CPU are unknown)" in said


def test_what_is_known_of_waiting_only_roughly_makes_no_step_slow():
    starved = [(100, 0)] * 30 + [(9500, 9000)]
    assert dumps_of(SlowStep(), starved) == []
    assert dumps_of(SlowStep(), [(100, 0)] * 30 + [(11000, 9000)]) == [32]
