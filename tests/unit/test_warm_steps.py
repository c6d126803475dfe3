"""Which steps ``opscope run --why`` records."""

import pytest

from opscope import warm_steps
from opscope.warm_steps import WarmSteps


class Recording:
    def __init__(self):
        self.state = "new"

    def start(self):
        self.state = "running"

    def stop(self):
        self.state = "stopped"


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(warm_steps.time, "monotonic", lambda: now[0])
    return now


class Program:
    def __init__(self, clock):
        self.made, self.done, self.clock = [], [], clock
        self.steps = WarmSteps(self.make, self.done.append)
        self.steps.begin()

    def make(self, is_warm):
        assert is_warm == bool(self.made)
        self.made.append(Recording())
        return self.made[-1]

    def run(self, steps, each_s):
        for _ in range(steps):
            self.clock[0] += each_s
            self.steps.step_ended()

    @property
    def states(self):
        return [recording.state for recording in self.made]


def test_nothing_is_recorded_between_the_first_step_and_the_third(clock):
    program = Program(clock)
    assert program.states == ["running"]
    program.run(1, 0.1)
    assert program.states == ["stopped"]
    program.run(1, 0.1)
    assert program.states == ["stopped"]
    program.run(1, 0.1)
    assert program.states == ["stopped", "running"]


@pytest.mark.parametrize(("each_s", "expected"), [(1e-3, 30), (0.1, 10), (0.5, 5), (15.0, 2)])
def test_enough_steps_are_recorded_however_long_they_take(clock, each_s, expected):
    program = Program(clock)
    program.run(400, each_s)
    assert program.done == [program.made[1]]
    assert program.states == ["stopped", "stopped"]
    assert program.steps.finish() is None

    shorter = Program(clock)
    shorter.run(3 + expected - 1, each_s)
    assert shorter.done == []


@pytest.mark.parametrize(("steps", "recording"), [(0, 0), (1, 0), (3, 0), (4, 1), (7, 1)])
def test_a_program_that_ends_early_leaves_what_there_is(clock, steps, recording):
    program = Program(clock)
    program.run(steps, 0.01)
    assert program.steps.finish() is program.made[recording]
    assert set(program.states) == {"stopped"}
    assert program.steps.recorded_steps == max(steps - 3, 0)
    program.run(5, 0.01)
    assert program.steps.finish() is None and len(program.made) <= 2


def test_a_program_without_steps_is_recorded_for_a_while_only(clock, monkeypatch):
    monkeypatch.setattr(warm_steps, "_LONG_S", 0.0)
    program = Program(clock)
    program.steps._limit.join(60)
    assert program.states == ["stopped"]
    assert program.steps.finish() is program.made[0]


def test_steps_whose_handing_over_was_interrupted_are_handed_over_at_the_end(clock):
    program = Program(clock)

    def interrupted(recording):
        raise KeyboardInterrupt

    program.steps._when_done = interrupted
    with pytest.raises(KeyboardInterrupt):
        program.run(100, 1e-3)
    program.run(100, 1e-3)
    assert program.steps.finish() is program.made[1]
    assert program.steps.finish() is None
