"""What an event is taken to cost: what is expected at first, then what steps say."""

import random

import pytest

from opscope.flight.event_cost import EventCost

_STEP_NS = 1_000_000.0


def found(cost_ns, scatter_ns, count, expected_ns=400.0):
    """What so many comparisons of steps with 100 events and 1 event say."""
    cost, chance = EventCost(expected_ns), random.Random(0)
    for _ in range(count):
        extra_ns = 99 * cost_ns + chance.gauss(0, 99 * scatter_ns)
        cost.compare((_STEP_NS + extra_ns, 100), (_STEP_NS, 1))
    return cost.estimate()


def test_before_there_are_comparisons_more_than_what_is_expected_counts():
    estimate = EventCost(400.0).estimate()
    assert (estimate.event_ns, estimate.at_most_ns, estimate.comparisons) == (400.0, 600.0, 0)
    assert found(1_000.0, 10.0, count=7).comparisons == 0


@pytest.mark.parametrize("cost_ns", [100.0, 2_000.0])
def test_steps_decide_once_they_say_something(cost_ns):
    estimate = found(cost_ns, scatter_ns=cost_ns, count=1_000)
    assert estimate.event_ns == pytest.approx(cost_ns, rel=0.2)
    assert cost_ns < estimate.at_most_ns < 1.2 * cost_ns


def test_what_scatters_too_much_changes_little():
    estimate = found(0.0, scatter_ns=50_000.0, count=20)
    assert estimate.event_ns == pytest.approx(400.0, rel=0.1)
    assert estimate.error_ns > 150.0


def test_a_few_steps_that_were_interrupted_change_little():
    cost = EventCost(400.0)
    for number in range(200):
        extra_ns = 99 * 300 if number % 10 else 50_000_000
        cost.compare((_STEP_NS + extra_ns, 100), (_STEP_NS, 1))
    assert cost.estimate().event_ns == pytest.approx(300.0, rel=0.05)


def test_steps_with_no_more_events_are_no_comparison():
    cost = EventCost(400.0)
    for _ in range(100):
        cost.compare((_STEP_NS * 2, 3), (_STEP_NS, 3))
    assert cost.estimate().comparisons == 0


def test_steps_that_seem_to_become_faster_by_being_recorded_cost_nothing_and_no_less():
    assert found(-500.0, scatter_ns=10.0, count=1_000).at_most_ns == 0.0
