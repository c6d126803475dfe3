"""Which level the governor chooses, by what recording costs."""

import itertools
import random
import time
from types import SimpleNamespace

import pytest

from opscope.flight import step_samples
from opscope.flight.governor import Governor, OwnCost
from opscope.flight.step_samples import StepSample
from opscope.recording.sources import RecordingOptions, native_wants
from opscope.trace.codes import Want
from support.simulated_steps import SimulatedSteps

SECOND = 1_000_000_000
ALL = native_wants(RecordingOptions())
COUNTED_NS = 100.0
"""What an event is counted with where steps say nothing: more than what it costs by itself."""
SPAN_NS = COUNTED_NS / 2.5 / 1.5


class Driven:
    """A governor that is told of events as they would be at its level."""

    def __init__(self, options, budget, has_outermost=False):
        self.collected = []
        self.events = 0
        self.governor = Governor(
            options, budget, self.collected.append, SPAN_NS, lambda: self.events, has_outermost
        )
        self.steps = SimulatedSteps()
        self.governor.sampler.listen(self.steps)
        self.now = OwnCost(SECOND, SECOND, 0, 0)
        self.governor.look(self.now)

    def seconds(self, count, events, own_ns=0, had_ns=SECOND):
        for _ in range(count):
            now = self.now
            self.events = now.events + events
            self.now = OwnCost(
                now.time_ns + had_ns,
                now.clock_ns + SECOND,
                self.events,
                now.processor_ns + own_ns,
            )
            self.governor.look(self.now)
        return self.governor.level


def test_what_costs_less_than_the_budget_stays():
    driven = Driven(RecordingOptions(), 0.01)
    assert driven.seconds(5, events=50_000) == "operators"  # 100 ns each: 0.5 %
    assert driven.collected == []


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


def test_its_own_threads_count_too():
    driven = Driven(RecordingOptions(), 0.01)
    assert driven.seconds(5, events=70_000) == "operators"  # 0.7 %
    assert driven.seconds(1, events=70_000, own_ns=SECOND // 200) == "steps"


def test_nothing_is_left_out_for_threads_that_cost_the_same_without_it():
    driven = Driven(RecordingOptions(), 0.01)
    assert driven.seconds(5, events=40_000, own_ns=SECOND // 50) == "operators"  # 0.4 % and 2 %
    assert driven.governor.share == pytest.approx(0.024)
    assert driven.seconds(1, events=60_000, own_ns=SECOND // 50) == "steps"
    assert driven.seconds(60, events=10, own_ns=SECOND // 50) == "operators"


def test_its_own_threads_count_by_the_clock_where_other_programs_have_the_processors():
    driven = Driven(RecordingOptions(), 0.01)
    took = {"events": 10_000, "own_ns": SECOND // 250, "had_ns": SECOND // 4}  # 0.4 % each
    assert driven.seconds(5, **took) == "operators"
    assert driven.governor.share == pytest.approx(0.008)


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
    assert waits[0] > 30


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


def test_announcing_long_steps_counts_and_of_short_ones_no_more_than_a_share():
    driven = Driven(RecordingOptions(), None)
    driven.steps.count += 10
    driven.seconds(1, events=0)
    assert driven.governor.share == pytest.approx(10 * 35 * SPAN_NS / SECOND)
    driven.steps.count += 1_000_000
    driven.seconds(1, events=0)
    assert driven.governor.share == pytest.approx(0.003)


class Processor:
    """What the process has had of one."""

    ns = 0


@pytest.fixture(autouse=True)
def processor(monkeypatch):
    monkeypatch.setattr(Processor, "ns", 0)
    monkeypatch.setattr(time, "process_time_ns", lambda: Processor.ns)
    # Which steps are recorded is drawn; here always the same.
    monkeypatch.setattr(step_samples, "random", SimpleNamespace(Random=lambda: random.Random(0)))


class Stepping(Driven):
    """A program of so many steps a second, each of so many operators, and what each costs."""

    times = 1

    def run(self, seconds, steps, operators):
        for _ in range(seconds):
            before = self.events
            for _ in range(steps):
                events = self.events_of_step(operators)
                self.events += events
                Processor.ns += SECOND // steps + int(events * COUNTED_NS * self.times)
                self.steps.end_step(SECOND // steps)
            self.seconds(1, self.events - before)

    def events_of_step(self, operators):
        """A quarter of the operators are outermost ones."""
        wants = self.collected[-1] if self.collected else ALL
        if not wants & Want.OPERATORS:
            return 1
        return operators if wants & Want.INNER_OPERATORS else operators // 4

    def recorded(self, seconds, steps, operators):
        """The share of the steps that had their operators recorded meanwhile."""
        full = 0
        for _ in range(seconds):
            begun = self.events
            self.run(1, steps, operators)
            full += (self.events - begun) // operators
        return full / (seconds * steps)


def test_operators_of_some_steps_are_recorded_where_those_of_all_cost_too_much():
    driven = Stepping(RecordingOptions(), 0.01)
    driven.run(20, steps=100, operators=4_000)  # 4 % if all were
    assert driven.governor.level == "operators"
    assert driven.governor.sampler.sample.of > driven.governor.sampler.sample.recorded
    assert driven.governor.share <= 0.013  # a second holds some runs of steps more or less
    assert 0.1 < driven.recorded(60, 100, 4_000) < 0.25


def test_what_sampling_costs_stays_below_the_budget_on_average():
    driven = Stepping(RecordingOptions(), 0.01)
    driven.run(10, steps=100, operators=10_000)
    begin = driven.now
    driven.run(120, steps=100, operators=10_000)
    spent_ns = (driven.now.events - begin.events) * COUNTED_NS
    assert spent_ns / (driven.now.time_ns - begin.time_ns) < 0.011


def test_what_is_too_much_for_any_sample_records_steps_alone():
    driven = Stepping(RecordingOptions(), 0.001)
    driven.run(30, steps=100, operators=100_000)
    assert driven.governor.level == "steps"
    assert driven.governor.sampler.sample is None


class Dear(Stepping):
    """As :class:`Stepping`, with events that cost far more than is expected of them."""

    times = 3


def test_events_that_cost_more_than_expected_are_found_out_by_leaving_some_out():
    driven = Dear(RecordingOptions(), 0.01)
    driven.run(60, steps=100, operators=600)  # 0.6 % as it seems, 1.8 % as it is
    assert driven.governor.level == "operators"
    assert driven.governor.sampler.sample is not None
    assert driven.governor.share <= 0.013
    rows = {what: value for _, what, value in driven.governor.rows()}
    assert rows["cost_ns, by comparing steps: operators"] == pytest.approx(300, rel=0.05)


def test_events_that_cost_what_is_expected_are_all_recorded_after_that_is_known():
    driven = Stepping(RecordingOptions(), 0.01)
    driven.run(1, steps=100, operators=600)
    assert driven.governor.sampler.sample is not None
    driven.run(30, steps=100, operators=600)
    assert driven.governor.sampler.sample is None
    assert driven.recorded(20, 100, 600) == 1
    assert driven.governor.share == pytest.approx(0.006, rel=0.1)


def test_nothing_is_left_out_where_even_many_times_the_expected_is_little():
    driven = Dear(RecordingOptions(), 0.01)
    driven.run(30, steps=100, operators=200)
    assert driven.collected == []


def test_steps_are_compared_with_such_as_have_no_operators_at_all():
    driven = Dear(RecordingOptions(), 0.01, has_outermost=True)
    driven.run(3, steps=100, operators=600)
    without = native_wants(RecordingOptions(operators=False, inner_operators=False))
    assert set(driven.collected) == {ALL, without}
    driven.run(20, steps=100, operators=600)
    rows = {what: value for _, what, value in driven.governor.rows()}
    known_ns = rows["cost_ns, by comparing steps: operators, compared with none"]
    assert known_ns == pytest.approx(300, rel=0.05)


def test_all_steps_are_recorded_again_once_they_cost_less():
    driven = Stepping(RecordingOptions(), 0.01)
    driven.run(20, steps=100, operators=4_000)
    assert driven.governor.sampler.sample is not None
    driven.run(5, steps=100, operators=100)
    assert driven.governor.sampler.sample is None
    assert driven.governor.sampler.is_full


def test_changes_name_the_sample_and_the_time_counts_for_what_was_recorded():
    driven = Stepping(RecordingOptions(), 0.01)
    driven.run(20, steps=100, operators=4_000)
    rows = {what: value for _, what, value in driven.governor.rows()}
    assert any("operators of 1 of " in what or " steps from then on" in what for what in rows)
    assert rows["share of time recorded: operators"] < 0.5
    assert rows["share of time recorded: steps"] == 1


def test_a_step_that_takes_seconds_is_recorded_whole():
    driven = Stepping(RecordingOptions(), 0.01)
    driven.run(20, steps=100, operators=10_000)
    while driven.governor.sampler.is_full:
        driven.steps.end_step()
    driven.seconds(2, events=10)  # the steps above ended in the first
    assert driven.governor.sampler.is_full


def test_without_steps_operators_are_left_out_as_a_whole():
    assert Driven(RecordingOptions(), 0.01).seconds(1, events=500_000) == "steps"


def test_outermost_operators_alone_come_before_none():
    driven = Driven(RecordingOptions(), 0.01, has_outermost=True)
    assert driven.seconds(1, events=500_000) == "outermost"
    assert driven.collected[-1] == native_wants(RecordingOptions(inner_operators=False))
    assert driven.seconds(1, events=500_000) == "steps"


def test_steps_that_are_not_recorded_in_full_have_their_outermost_operators():
    driven = Stepping(RecordingOptions(), 0.01, has_outermost=True)
    driven.run(30, steps=100, operators=800)  # 0.8 % if all were, as it seems at first
    driven.governor.sampler.begin(StepSample(1, 4))
    driven.collected.clear()
    driven.run(2, steps=100, operators=800)
    assert set(driven.collected) == {ALL, native_wants(RecordingOptions(inner_operators=False))}


def test_where_all_operators_are_outermost_ones_the_level_saves_nothing_and_is_left():
    driven = Stepping(RecordingOptions(), 0.01, has_outermost=True)
    driven.events_of_step = lambda operators: (
        operators if (driven.collected or [ALL])[-1] & Want.OPERATORS else 1
    )
    driven.run(40, steps=100, operators=8_000)
    assert driven.governor.level == "outermost"
    assert driven.governor.sampler.sample.of > driven.governor.sampler.sample.recorded
    assert driven.governor.share < 0.015


def test_without_operators_there_is_no_level_of_them():
    driven = Driven(RecordingOptions(operators=False), 0.01, has_outermost=True)
    assert driven.governor.level == "steps"
