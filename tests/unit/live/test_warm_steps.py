"""Which steps ``opscope run --why`` records."""

import threading

import pytest

from opscope.live import warm_steps
from opscope.live.warm_steps import WarmSteps


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
    def __init__(self, clock, when_without=lambda recording: False, is_rank=False):
        self.made, self.done, self.clock = [], [], clock
        self.steps = WarmSteps(self.make, self.done.append, when_without, lambda: is_rank)
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


@pytest.mark.parametrize(("each_s", "expected"), [(1e-3, 30), (0.05, 20), (0.5, 11), (15.0, 6)])
def test_of_ranks_as_many_are_recorded_as_it_takes_to_compare_them(clock, each_s, expected):
    rank = Program(clock, is_rank=True)
    rank.run(3 + expected - 1, each_s)
    assert rank.done == []
    rank.run(1, each_s)
    assert rank.done == [rank.made[1]]


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


@pytest.mark.parametrize(
    ("steps", "answered", "left"),
    [
        (0, True, None),
        (0, False, 0),
        (1, True, None),
        (2, False, 0),
        (5, True, 1),
    ],
)
def test_a_program_without_steps_is_answered_while_it_runs(
    clock, monkeypatch, steps, answered, left
):
    monkeypatch.setattr(warm_steps, "_LONG_S", 0.0)
    program = Program(clock, lambda recording: answered and recording.state == "stopped")
    program.steps._limit.join(60)
    monkeypatch.setattr(warm_steps, "_LONG_S", 20.0)
    program.run(steps, 0.01)
    assert program.steps.finish() is (None if left is None else program.made[left])
    assert set(program.states) == {"stopped"}


def test_the_end_waits_for_what_is_being_said(clock, monkeypatch):
    monkeypatch.setattr(warm_steps, "_LONG_S", 0.0)
    begun, go_on = threading.Event(), threading.Event()

    def say(recording):
        begun.set()
        return go_on.wait(60)

    program = Program(clock, say)
    assert begun.wait(60)
    threading.Timer(0.05, go_on.set).start()
    assert program.steps.finish() is None
    assert go_on.is_set()


def test_nothing_is_said_of_no_steps_where_one_has_ended(clock, monkeypatch):
    said = []
    program = Program(clock, said.append)
    program.run(1, 0.01)
    program.steps._end_without_steps(program.made[0])
    assert said == []


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
