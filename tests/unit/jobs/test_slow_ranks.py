"""Slow ranks: named when they are slower by more than chance, and for what; else nobody is."""

from dataclasses import replace

import numpy as np
import pytest

from opscope.api.job import Job
from opscope.columns.causes import Cause
from opscope.columns.codes import EventKind
from opscope.jobs.outlier_ranks import FALSE_ALARMS
from opscope.jobs.rank_steps import NONE, RankSteps
from opscope.jobs.slow_ranks import find_slow_ranks
from opscope.storage.partition import Partition
from support.build_trace import build_trace, span

STEP_NS = 20e6


def steps_of(table_ns):
    """Of (ranks, steps, causes) nanoseconds: every rank waits for the slowest of each step."""
    table = np.array(table_ns, dtype=np.int64)
    own = table.sum(axis=2)
    table[:, :, Cause.COLLECTIVE] = own.max(axis=0) - own + int(0.1 * STEP_NS)
    wall = table.sum(axis=2)
    processes = tuple(Partition("rank", number) for number in range(len(table)))
    numbers = np.arange(table.shape[1])
    return RankSteps(processes, numbers, wall, own, table, table.sum(axis=1), "")


def alike(random, ranks, steps, scatter=0.1, apart=0.02, burst=0.0):
    """Ranks that do the same: steps scatter, ranks differ a little, and the machine has moods."""
    table = np.zeros((ranks, steps, len(Cause)))
    of_rank = 1 + apart * random.standard_normal((ranks, 1))
    noise = random.lognormal(0, scatter, (ranks, steps))
    moods = np.repeat(random.lognormal(0, burst, (ranks, -(-steps // 5))), 5, axis=1)[:, :steps]
    table[:, :, Cause.OPERATOR] = 0.7 * STEP_NS * of_rank * noise * moods
    python = random.lognormal(0, scatter, (ranks, steps))
    table[:, :, Cause.PYTHON] = 0.2 * STEP_NS * of_rank * python
    table[:, :, Cause.DESCHEDULED] = random.exponential(0.15 * STEP_NS, (ranks, steps))
    return table


def test_a_slow_rank_is_named_with_its_cause_and_what_it_costs():
    table = alike(np.random.default_rng(1), 4, 30)
    table[2, :, Cause.TIMER] += 0.8 * STEP_NS
    found = find_slow_ranks(steps_of(table))
    (slow,) = found.found
    assert (slow.process, slow.cause) == (Partition("rank", 2), Cause.TIMER)
    assert slow.cause_ns == pytest.approx(0.8 * STEP_NS)
    assert slow.own_ns - slow.others_ns == pytest.approx(0.8 * STEP_NS, rel=0.2)
    assert slow.waited_ns == pytest.approx(0.8 * STEP_NS, rel=0.3)
    assert 0.5 * STEP_NS < slow.gain_ns < 0.8 * STEP_NS
    assert slow.is_always and slow.excess is None
    assert "rank 2 works" in str(slow) and "asleep" in str(slow)


def test_what_happens_now_and_then_is_found_and_said_to_be_so():
    table = alike(np.random.default_rng(2), 4, 40)
    table[1, ::4, Cause.COLLECTION] += 2.5 * STEP_NS
    (slow,) = find_slow_ranks(steps_of(table)).found
    assert (slow.process.number, slow.cause) == (1, Cause.COLLECTION)
    assert slow.recurrence == pytest.approx(0.25, abs=0.1) and not slow.is_always
    assert "of its steps" in str(slow)


def test_who_computes_more_on_a_busy_machine_is_not_slow_for_waiting_longer():
    """All wait twice as long for a processor as they compute, the slow one for the same reason."""
    table = alike(np.random.default_rng(8), 5, 40)
    table[4, :, Cause.OPERATOR] *= 2
    computing = table[:, :, Cause.OPERATOR] + table[:, :, Cause.PYTHON]
    table[:, :, Cause.DESCHEDULED] = 2 * computing
    (slow,) = find_slow_ranks(steps_of(table)).found
    assert (slow.process.number, slow.cause) == (4, Cause.OPERATOR)
    assert slow.cause_ns == pytest.approx(0.7 * STEP_NS, rel=0.2)
    assert slow.delayed_ns == pytest.approx(2 * slow.cause_ns, rel=0.2)
    assert "ms of waiting for a CPU." in str(slow)
    table[4, :, Cause.DESCHEDULED] += 4 * STEP_NS
    (slow,) = find_slow_ranks(steps_of(table)).found
    assert (slow.process.number, slow.cause) == (4, Cause.DESCHEDULED)
    assert slow.delayed_ns == 0 and "to do it" not in str(slow)


@pytest.mark.parametrize("moods", [0.0, 0.15])
def test_of_jobs_whose_ranks_are_alike_few_have_one_named(moods):
    random = np.random.default_rng(5)
    jobs = 100
    alarms = 0
    for _ in range(jobs):
        ranks, steps = int(random.integers(2, 33)), int(random.integers(8, 61))
        job = alike(random, ranks, steps, scatter=random.uniform(0.02, 0.3), burst=moods)
        alarms += bool(find_slow_ranks(steps_of(job)).found)
    # Twice the promised share is within chance for so many jobs.
    assert alarms <= 2 * FALSE_ALARMS * jobs


def test_a_tenth_more_work_is_found_where_steps_scatter_little():
    random = np.random.default_rng(6)
    found = 0
    for _ in range(20):
        table = alike(random, 8, 40, scatter=0.05, apart=0.005)
        table[5, :, Cause.OPERATOR] += 0.2 * STEP_NS
        slow = find_slow_ranks(steps_of(table)).found
        found += bool(slow) and slow[0].process.number == 5
    assert found >= 18


def test_too_little_to_compare_is_reported():
    one = steps_of(np.full((1, 20, len(Cause)), 100.0))
    assert "only one process" in find_slow_ranks(one).notes[0]
    few = steps_of(np.full((3, 2, len(Cause)), 100.0))
    (note,) = find_slow_ranks(few).notes
    assert note.startswith("0 of 3 processes have 5 steps or more") and "Record more" in note


def test_who_has_more_of_one_cause_and_less_in_all_is_not_slow():
    """Next to a rank that is far slower, one that waits for a processor is quick."""
    table = alike(np.random.default_rng(10), 3, 40, scatter=0.05)
    table[:, :, Cause.DESCHEDULED] = 0.01 * STEP_NS
    table[1, :, Cause.DESCHEDULED] = 0.5 * STEP_NS
    table[2, :, Cause.TIMER] += 8 * STEP_NS
    found = find_slow_ranks(steps_of(table)).found
    assert [one.process.number for one in found] == [2]
    table[2] = table[0]
    found = find_slow_ranks(steps_of(table)).found
    assert [one.process.number for one in found] == [1]


def test_who_was_not_compared_is_reported():
    steps = steps_of(alike(np.random.default_rng(11), 5, 30))
    for values in (steps.wall_ns, steps.own_ns):
        values[3:, 4:] = NONE
    silent = [Partition("rank", 5)]
    found = find_slow_ranks(steps, silent=silent)
    assert found.compared == 3 and found.found == ()
    assert found.sentences()[1:] == [
        "ranks 3-4 have fewer than 5 steps, so they were not compared.",
        "rank 5 has no event, so it was not compared.",
    ]
    few = steps_of(np.full((1, 20, len(Cause)), 100.0))
    assert find_slow_ranks(few, silent=silent).notes[0].startswith("1 of 2 processes have")


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_where_every_rank_waits_alike_the_transfers_are_named_and_no_rank(share):
    steps = steps_of(alike(np.random.default_rng(13), 4, 30))
    more = int(share * STEP_NS / (1 - share))
    steps.table_ns[:, :, Cause.COLLECTIVE] += more
    found = find_slow_ranks(replace(steps, wall_ns=steps.wall_ns + more))
    said = " ".join(found.sentences())
    assert found.found == () and "No rank is slower" in said
    assert ("of a step or more in collectives" in said) == (share > 0.5)
    assert ("opscope ranks --collectives" in said) == (share > 0.5)


def test_of_two_ranks_the_other_one_is_the_measure():
    table = alike(np.random.default_rng(7), 2, 40)
    table[0, :, Cause.IO] += STEP_NS
    found = find_slow_ranks(steps_of(table))
    assert [one.process.number for one in found.found] == [0]
    assert "With two ranks" in found.notes[0]


def rank_trace(slow):
    """A module, and a backward pass that takes longer in the slow rank, in every step."""
    spans, at = [], 0.0
    for number in range(20):
        took = 90 if slow else 40
        spans += [
            span(f"ProfilerStep#{number}", at, at + 200, step=number),
            span("Net_0", at, at + 50, kind=EventKind.MODULE_CALL, module="Net_0"),
            span("aten::mm", at + 5, at + 45),
            span("MmBackward0", at + 60, at + 60 + took, scope=1),
            span("c10d::allreduce_", at + 60 + took, at + 190),
        ]
        at += 200
    return build_trace(spans)


def test_a_rank_without_any_event_is_not_forgotten(tmp_path):
    for rank in range(3):
        rank_trace(slow=rank == 1).save(tmp_path, rank=rank)
    build_trace([]).save(tmp_path, rank=3)
    found = Job(tmp_path).slow_ranks()
    assert found.compared == 3
    assert "rank 3 has no event, so it was not compared." in found.sentences()
    for rank in range(2):
        build_trace([]).save(tmp_path / "silent", rank=rank)
    rank_trace(slow=False).save(tmp_path / "silent", process=7)  # who started them
    found = Job(tmp_path / "silent").slow_ranks()
    assert found.found == () and found.compared == 0
    assert found.notes[0].startswith("0 of 2 processes have 5 steps or more")
    assert found.notes[1] == "ranks 0-1 have no event, so they were not compared."


def test_where_in_the_program_it_is_comes_from_the_traces(tmp_path):
    for rank in range(3):
        rank_trace(slow=rank == 1).save(tmp_path, rank=rank)
    (slow,) = Job(tmp_path).slow_ranks().found
    assert slow.process == Partition("rank", 1) and slow.cause is Cause.OPERATOR
    assert slow.excess.phase == "backward" and slow.excess.operator == "MmBackward0"
    assert slow.excess.place_ns == pytest.approx(50_000)
    assert slow.as_dict()["where"]["phase"] == "backward"
    assert "in backward" in str(slow)


@pytest.mark.parametrize("cause", [Cause.TIMER, Cause.DESCHEDULED])
def test_the_detection_limit_is_reported(cause):
    random = np.random.default_rng(12)
    found = {0.1: 0, 1.8: 0}
    for _ in range(20):
        table = alike(random, int(random.integers(2, 9)), 30, scatter=0.2)
        nobody = find_slow_ranks(steps_of(table))
        assert not nobody.found and nobody.standing is not None
        told = nobody.as_dict()
        least = told["least_delayed_ns" if cause is Cause.DESCHEDULED else "least_work_ns"]
        assert "longer steps or " in str(nobody)
        for share in found:
            slower = table.copy()
            slower[1, :, cause] += share * least
            found[share] += [
                one.process.number for one in find_slow_ranks(steps_of(slower)).found
            ] == [1]
    assert found[0.1] <= 2 and found[1.8] >= 18


def test_ranks_of_which_less_is_known_are_not_compared_with_the_others():
    """What was killed lost what the kernel counted: its waiting seems to be what it waited in."""
    table = alike(np.random.default_rng(13), 5, 30)
    table[:, :, Cause.DESCHEDULED] += 0.5 * STEP_NS
    for rank in (1, 3):
        table[rank, :, Cause.DESCHEDULED] = 0
    found = find_slow_ranks(steps_of(table))
    assert (found.found, found.compared) == ((), 3)
    assert found.sentences()[-1] == (
        "ranks 1, 3 were not compared: their waits for a CPU are unknown, as after a kill."
    )
    for rank in (0, 4):
        table[rank, :, Cause.DESCHEDULED] = 0
    table[4, :, Cause.TIMER] += STEP_NS
    found = find_slow_ranks(steps_of(table))
    assert ([slow.process.number for slow in found.found], found.compared) == ([4], 4)
    assert found.sentences()[-1] == (
        "rank 2 was not compared: waits of the others for a CPU are unknown."
    )
