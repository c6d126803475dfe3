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
