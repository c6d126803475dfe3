"""Which steps are slow, by the steps before them."""

import pytest

from opscope.errors import UsageError
from opscope.flight.triggers.slow_step import SlowStep
from opscope.flight.triggers.trigger import Watched
from support.simulated_steps import SimulatedSteps

MS = 1_000_000


def dumps_of(trigger, durations_ms):
    """The numbers of the steps that made a dump."""
    dumped, steps = [], SimulatedSteps()
    trigger.begin(Watched(lambda detail: dumped.append(detail), None, steps))
    steps.end_step()  # of the first nobody knows when it began
    for duration in durations_ms:
        steps.end_step(int(duration * MS))
    trigger.end()
    return [int(detail.split()[1]) for detail in dumped]


def test_a_step_of_many_times_the_others_is_slow():
    assert dumps_of(SlowStep(), [100] * 30 + [400] + [100] * 9) == [32]


def test_steps_of_the_warm_up_never_are():
    assert dumps_of(SlowStep(warm_up=20), [5000] * 3 + [100] * 15 + [900]) == []


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
