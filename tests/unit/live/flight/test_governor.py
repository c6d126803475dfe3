"""Which level the governor chooses, by what recording costs."""

import itertools

import pytest

from opscope.live.flight.governor import EVENT_COST, Governor, OwnCost
from opscope.recording.sources import RecordingOptions, native_wants

SECOND = 1_000_000_000
COUNTED_NS = 100.0
"""What an event is counted with."""
SPAN_NS = COUNTED_NS / 4


class Driven:
    """A governor that is told of events as they would be at its level."""

    def __init__(self, options, budget, has_outermost=False):
        self.collected = []
        self.governor = Governor(options, budget, self.collected.append, SPAN_NS, has_outermost)
        self.now = OwnCost(SECOND, SECOND, 0, 0)
        self.governor.look(self.now)

    def seconds(self, count, events, own_ns=0, had_ns=SECOND):
        for _ in range(count):
            now = self.now
            self.now = OwnCost(
                now.time_ns + had_ns,
                now.clock_ns + SECOND,
                now.events + events,
                now.processor_ns + own_ns,
            )
            self.governor.look(self.now)
        return self.governor.level


def test_what_costs_more_is_left_out_level_by_level():
    driven = Driven(RecordingOptions(shapes=True, functions=True), 0.01)
    assert driven.governor.level == "stacks"
    assert driven.seconds(1, events=200_000) == "arguments"
    assert driven.seconds(1, events=200_000) == "operators"
    assert driven.seconds(1, events=200_000) == "steps"
    assert driven.seconds(1, events=200_000) == "nothing"
    assert driven.collected[2] == native_wants(
        RecordingOptions(operators=False, inner_operators=False)
    )
    assert driven.collected[3] == 0


def test_more_is_tried_again_after_a_while_and_later_each_time():
    driven = Driven(RecordingOptions(), 0.01)
    rises = []
    for second in range(400):
        level = driven.governor.level
        driven.seconds(1, events=500_000 if level == "operators" else 10)
        if driven.governor.level == "operators" != level:
            rises.append(second)
    assert len(rises) >= 2
    waits = [later - earlier for earlier, later in itertools.pairwise(rises)]
    assert waits == sorted(waits)
    assert rises[0] >= 15 and waits[0] > 30


def test_the_first_two_seconds_cost_no_more_than_the_budget():
    options = RecordingOptions(shapes=True, functions=True)
    driven = Driven(options, 0.01, has_outermost=True)
    governor, spent_ns, began_ns = driven.governor, 0.0, driven.now.time_ns
    costs = {"stacks": 0.2, "arguments": 0.1, "operators": 0.06, "outermost": 0.012}
    while (now_ns := driven.now.time_ns) < began_ns + 2 * SECOND:
        had_ns = int(governor.look_after_s * SECOND)
        share = costs.get(governor.level, 0.0)
        spent_ns += share * had_ns
        events = int(share * had_ns / COUNTED_NS / EVENT_COST[governor.level]) if share else 0
        driven.now = OwnCost(now_ns + had_ns, now_ns + had_ns, driven.now.events + events, 0)
        governor.look(driven.now)
    assert governor.level == "steps"
    assert spent_ns < 0.01 * 2 * SECOND


def test_every_change_is_in_the_ledger_and_no_share_pretends_to_be_all():
    driven = Driven(RecordingOptions(), 0.01)
    driven.seconds(3, events=10)
    driven.seconds(1, events=500_000)
    driven.seconds(4, events=10)
    rows = {what: value for _, what, value in driven.governor.rows()}
    assert rows["share of time recorded: operators"] == 0.5
    assert rows["share of time recorded: steps"] == 1
    (change,) = [what for what in rows if "from then on" in what]
    assert "steps from then on" in change
    assert rows[change] == pytest.approx(0.05)


def test_without_a_budget_nothing_is_left_out_and_the_cost_is_known():
    driven = Driven(RecordingOptions(), None)
    assert driven.seconds(3, events=10_000_000) == "operators"
    assert driven.governor.share == pytest.approx(1.0)
    assert driven.governor.rows() == []


def test_what_was_collected_is_known_from_a_moment_on():
    driven = Driven(RecordingOptions(), 0.01)
    driven.seconds(1, events=500_000)
    driven.seconds(60, events=10)
    governor = driven.governor
    (began_ns, _), (fell_ns, _), (rose_ns, _) = changes = governor.collected_since(0)
    assert [level for _, level in changes] == ["operators", "steps", "operators"]
    assert began_ns <= fell_ns <= rose_ns
    assert governor.collected_since(rose_ns) == changes[2:]
    assert Driven(RecordingOptions(), None).governor.collected_since(0) == []
