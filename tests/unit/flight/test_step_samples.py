"""Which steps are recorded in full: as many as were asked for, and not always the same."""

import time

import pytest

from opscope.flight.step_samples import StepSample, StepSampler
from support.simulated_steps import SimulatedSteps

MILLISECOND = 1_000_000


def unmeasured_sampler(steps):
    sampler = StepSampler(lambda is_full: None, lambda: 0, lambda full, less: None)
    sampler.listen(steps)
    return sampler


class Program:
    """Steps of 1 ms; recorded ones make 100 records at 500 ns each."""

    def __init__(self, monkeypatch, sample):
        self.processor_ns = self.records = 0
        self.compared = []
        monkeypatch.setattr(time, "process_time_ns", lambda: self.processor_ns)
        self.sampler = StepSampler(
            lambda is_full: None, lambda: self.records, lambda *both: self.compared.append(both)
        )
        self.steps = SimulatedSteps()
        self.sampler.listen(self.steps)
        self.sampler.begin(sample)

    def run(self, steps):
        for _ in range(steps):
            events = 100 if self.sampler.is_full else 1
            self.records += events
            self.processor_ns += MILLISECOND + 500 * events
            self.steps.end_step()


def recorded_steps(sample, steps):
    """Whether each step was recorded in full."""
    program = SimulatedSteps()
    sampler = unmeasured_sampler(program)
    sampler.begin(sample)
    found = []
    for _ in range(steps):
        found.append(sampler.is_full)
        program.end_step()
    return found


def test_long_steps_are_sampled_one_by_one():
    assert StepSample.one_in(4, 300 * MILLISECOND, 0.01, 50_000) == StepSample(1, 4)


def test_short_steps_are_sampled_in_runs_so_that_changes_cost_little():
    sample = StepSample.one_in(4, MILLISECOND, 0.01, 50_000)
    assert sample.of == 4 * sample.recorded
    assert sample.of * MILLISECOND * 0.01 * 0.1 >= 100_000


def test_as_many_steps_as_asked_for_in_runs_that_are_not_regular():
    found = recorded_steps(StepSample(2, 8), 40_000)
    assert 0.22 < sum(found) / len(found) < 0.28
    text = "".join("x" if one else "." for one in found)
    runs = {len(run) for run in text.split(".") if run}
    rests = {len(rest) for rest in text.strip(".").split("x") if rest}
    assert runs <= {1, 2}  # the first one had begun
    assert len(rests) > 5


def test_without_a_sample_all_steps_are():
    steps = SimulatedSteps()
    sampler = unmeasured_sampler(steps)
    sampler.begin(StepSample(1, 50))
    steps.end_step()
    assert not sampler.is_full
    sampler.begin(None)
    assert sampler.is_full
    steps.end_step()
    assert sampler.is_full


@pytest.mark.parametrize("sample", [StepSample(1, 2), StepSample(1, 3), StepSample(4, 40)])
def test_recorded_steps_are_compared_with_those_beside_them(monkeypatch, sample):
    program = Program(monkeypatch, sample)
    program.run(2_000)
    assert len(program.compared) > 20
    assert set(program.compared) == {((1_050_000, 100), (1_000_500, 1))}


def test_a_run_that_somebody_else_cut_is_compared_with_nothing(monkeypatch):
    program = Program(monkeypatch, StepSample(4, 40))
    while program.sampler.is_full or not program.compared:
        program.run(1)
    before = len(program.compared)
    program.run(1)
    program.sampler.go_on(True)  # a step that takes long is recorded from its middle on
    while program.sampler.is_full:
        program.run(1)
    program.run(1)
    assert len(program.compared) == before


def test_what_was_recorded_before_a_change_is_compared_with_nothing(monkeypatch):
    program = Program(monkeypatch, StepSample(1, 4))
    program.run(50)
    program.sampler.begin(None)
    program.run(1_000)
    before = len(program.compared)
    program.sampler.begin(StepSample(1, 4))
    program.run(1)
    assert len(program.compared) == before
    program.run(50)
    assert set(program.compared[before:]) == {((1_050_000, 100), (1_000_500, 1))}
