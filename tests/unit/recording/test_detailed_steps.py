"""Which steps of a program ``opscope run`` records in detail."""

import itertools
import os

import pytest

from opscope.recording import detailed_steps
from opscope.recording.detailed_steps import DetailedSteps


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(detailed_steps.time, "monotonic", lambda: now[0])
    return now


class Program:
    """``stretches``: of each stretch in detail at which step it began and how many it has."""

    def __init__(self, clock, is_rank=False):
        self.clock, self.ended = clock, 0
        self.stretches, self.on = [[0, None]], True
        self.detailed = DetailedSteps(self.record_detail, is_rank=lambda: is_rank)

    def record_detail(self, on, steps):
        assert on != self.on
        self.on = on
        if on:
            self.stretches.append([self.ended, None])
        else:
            self.stretches[-1][1] = steps

    def run(self, steps, each_s):
        for _ in range(steps):
            self.clock[0] += each_s
            self.ended += 1
            self.detailed.step_ended()
        return self

    def look(self, after_s, records):
        self.clock[0] += after_s
        detailed_steps._native.records += records
        self.detailed._look()
        return self


def test_the_start_is_recorded_until_the_program_is_warm(clock):
    program = Program(clock).run(2, 0.1)
    assert program.on and program.stretches == [[0, None]]
    program.run(1, 0.1)
    assert program.on and program.stretches == [[0, 0], [3, None]]


@pytest.mark.parametrize(
    ("is_rank", "each_s", "expected"),
    [
        (False, 1e-3, 30),
        (False, 0.1, 10),
        (False, 15.0, 2),
        (True, 1e-3, 30),  # of ranks as many as it takes to compare them
        (True, 0.05, 20),
        (True, 15.0, 6),
    ],
)
def test_enough_steps_are_recorded_however_long_they_take(clock, is_rank, each_s, expected):
    program = Program(clock, is_rank).run(3 + expected - 1, each_s)
    assert program.on
    program.run(1, each_s)
    assert program.on is False and program.stretches[1] == [3, expected]


def test_later_stretches_are_spread_over_the_run_and_take_little_of_it(clock):
    program = Program(clock).run(10_000, 0.01)
    begun, steps = zip(*program.stretches[1:], strict=True)
    assert len(begun) >= 3
    assert all(later >= 2 * earlier for earlier, later in itertools.pairwise(begun))
    assert sum(steps) <= 0.05 * 10_000


@pytest.mark.parametrize("steps", [0, 2, 3, 5, 40])
def test_a_program_that_ends_leaves_what_there_is(clock, steps):
    program = Program(clock).run(steps, 0.01)
    program.detailed.finish()
    assert not program.on
    assert program.stretches[-1][1] == min(max(steps - 3, 0), 30)
    program.run(5, 0.01)
    program.detailed.finish()
    assert not program.on


@pytest.fixture
def counted(monkeypatch):
    """How much was recorded, as the program says."""

    class Native:
        records = 0

        def statistics(self):
            return {"records": self.records}

    monkeypatch.setattr(detailed_steps, "_native", Native())


def test_a_program_without_steps_is_looked_at_again_while_it_works(clock, counted):
    program = Program(clock).look(1.0, 1_000)
    assert program.on
    program.look(1.0, 1_000)
    assert not program.on
    for _ in range(100):
        program.look(0.5, 1_000)
    later = program.stretches[1:]
    assert 1 <= len(later) <= 6 and all(steps in (0, None) for _, steps in later)


def test_a_program_that_waits_for_work_is_not_looked_at(clock, counted):
    program = Program(clock).look(2.0, 1_000)
    for _ in range(100):
        program.look(0.5, 10)
    assert program.stretches == [[0, 0]]


def test_a_stretch_of_steps_ends_in_a_long_evaluation(clock, counted):
    program = Program(clock).run(5, 0.01).look(19.0, 1_000)
    assert program.on
    program.look(2.0, 1_000)
    assert program.stretches[1:] == [[3, 2]] and not program.on
    program.run(3, 0.01)
    assert not program.on


def test_an_evaluation_has_stretches_of_its_own(clock, counted):
    program = Program(clock).run(40, 0.01).look(0.5, 1_000)
    assert not program.on  # a step that takes longer, perhaps
    program.look(0.6, 1_000)
    assert program.on
    program.look(1.0, 1_000)
    assert program.stretches[2:] == [[40, 0]] and not program.on
    for _ in range(200):
        program.look(0.5, 1_000)
    assert 3 <= len(program.stretches) <= 8 and {n for _, n in program.stretches[2:]} <= {0, None}


def test_a_step_ends_the_stretch_of_an_evaluation(clock, counted):
    program = Program(clock).run(40, 0.01).look(1.2, 1_000)
    assert program.on
    program.run(1, 0.01)
    assert not program.on and program.stretches[2:] == [[40, 0]]
    program.run(200, 0.1)
    assert len(program.stretches) > 3 and program.stretches[3][1] > 0


@pytest.mark.parametrize(("is_rank", "records"), [(True, 1_000), (False, 10)])
def test_ranks_and_pauses_without_work_have_none(clock, counted, is_rank, records):
    program = Program(clock, is_rank).run(100, 0.01)
    for _ in range(100):
        program.look(0.5, records)
    assert len(program.stretches) == 2


def test_steps_of_a_forked_child_are_its_own(clock, monkeypatch):
    program = Program(clock)
    parent = os.getpid()
    monkeypatch.setattr(detailed_steps.os, "getpid", lambda: parent + 1)
    program.run(5, 0.01)
    program.detailed.finish()
    assert program.stretches == [[0, None]]
