"""Slow senders: named when they have something unsent much more often than the others."""

import numpy as np
import pytest

from opscope.analysis.account.causes import Cause
from opscope.job.rank_steps import NONE, RankSteps
from opscope.job.slow_senders import SlowSenders, find_slow_senders
from opscope.trace.partition import Partition
from opscope.trace.sending import Sending

STEPS, LOOKS = 20, 100
STEP_NS, COLLECTIVE_NS = 50_000_000, 30_000_000


def ranks(count):
    return tuple(Partition("rank", number) for number in range(count))


def steps_of(count, collective_ns=COLLECTIVE_NS):
    table = np.zeros((count, STEPS, len(Cause)), dtype=np.int64)
    table[:, :, Cause.COLLECTIVE] = collective_ns
    table[:, :, Cause.OPERATOR] = STEP_NS - collective_ns
    wall, own = table.sum(axis=2), table[:, :, Cause.OPERATOR]
    return RankSteps(ranks(count), np.arange(STEPS), wall, own, table, table.sum(axis=1), "")


def sending_of(*behind, looks=LOOKS):
    parts = ranks(len(behind))
    return {
        part: Sending(looks, one, looked_ns=STEPS * STEP_NS)
        for part, one in zip(parts, behind, strict=True)
    }


def named(steps, sending):
    return [slow.process.number for slow in find_slow_senders(steps, sending).found]


def test_the_rank_whose_messages_leave_slowly_is_named_with_what_it_costs():
    (slow,) = find_slow_senders(steps_of(4), sending_of(4, 3, 50, 5)).found
    assert slow.process == Partition("rank", 2)
    assert (slow.sending_ns, slow.others_ns) == (25e6, 2e6)
    assert (slow.step_ns, slow.gain_ns) == (STEP_NS, 22.5e6)
    assert str(slow).startswith("rank 2 sends slowly, or where it sends to receives slowly: in ")
    assert "in 25.0 ms of a step it had something to send that was not sent yet, " in str(slow)
    assert "the middle one of the others in 2.00 ms. All wait for it in collectives" in str(slow)
    assert str(slow).endswith("would take up to 45% less if it were as quick as the next.")
    assert slow.as_dict()["rank"] == 2 and slow.as_dict()["gain_ns"] == 22_500_000


def test_no_more_can_be_gained_than_is_spent_in_collectives():
    (slow,) = find_slow_senders(steps_of(2, collective_ns=8_000_000), sending_of(2, 60)).found
    assert slow.gain_ns == 8e6
    assert named(steps_of(2, collective_ns=2_000_000), sending_of(2, 60)) == []


@pytest.mark.parametrize(
    "behind",
    [
        pytest.param((24, 20, 30, 22), id="alike"),
        pytest.param((0, 0, 8, 0), id="little of a step"),
        pytest.param((4, 40, 80, 24, 60), id="all differ"),
        pytest.param((0, 0, 0), id="nothing"),
    ],
)
def test_nobody_is_named_where_ranks_are_alike_or_it_is_little(behind):
    assert named(steps_of(len(behind)), sending_of(*behind)) == []


def test_what_comes_before_the_first_step_is_no_part_of_it():
    """A recording of a whole program, which took four times as long as its steps."""
    sending = {
        part: Sending(4 * one.looks, one.behind, 4 * one.looked_ns)
        for part, one in sending_of(0, 0, 50, 0).items()
    }
    (slow,) = find_slow_senders(steps_of(4), sending).found
    assert (slow.process.number, slow.sending_ns) == (2, 25e6)


def test_a_few_looks_are_chance():
    """A third of six looks may be anybody's, and a third of sixty not."""
    assert named(steps_of(2), sending_of(0, 2, looks=6)) == []
    assert named(steps_of(2), sending_of(0, 20, looks=60)) == [1]


def test_ranks_of_which_nothing_is_known_are_passed_over():
    steps = steps_of(4)
    steps.wall_ns[3] = NONE
    sending = sending_of(60, 3, 4, 5)
    del sending[Partition("rank", 1)]
    (slow,) = find_slow_senders(steps, sending).found
    assert (slow.process, slow.others_ns) == (Partition("rank", 0), 2e6)
    assert find_slow_senders(steps, {Partition("rank", 0): Sending(1, 1, 1)}) == SlowSenders()


def test_who_sends_on_what_the_slowest_sent_is_not_named_with_it():
    assert named(steps_of(8), sending_of(10, 9, 84, 28, 11, 26, 10, 32)) == [2]


def test_of_two_that_are_alike_neither_would_gain_anything_alone():
    slow = find_slow_senders(steps_of(6), sending_of(3, 4, 60, 60, 3, 4)).found
    assert [one.process.number for one in slow] == [2, 3]
    assert [one.gain_ns for one in slow] == [0, 0]
    assert all(str(one).endswith("All wait for it in collectives.") for one in slow)


@pytest.mark.parametrize(("count", "usual"), [(2, 0), (2, 10), (3, 5), (8, 0), (8, 5)])
def test_from_what_on_a_rank_would_be_named_is_said(count, usual):
    steps, behind = steps_of(count), [usual] * count
    least = round(find_slow_senders(steps, sending_of(*behind)).least_ns / STEP_NS * LOOKS)
    for more, expected in ((least - 2, []), (least + 1, [1])):
        behind[1] = usual + more
        told = find_slow_senders(steps, sending_of(*behind))
        assert [slow.process.number for slow in told.found] == expected


def test_of_ranks_that_are_alike_hardly_any_are_named():
    random = np.random.default_rng(3)
    steps = {count: steps_of(count) for count in (2, 4, 8)}
    alarms = 0
    for _ in range(1000):
        count = int(random.choice([2, 4, 8]))
        behind = random.binomial(LOOKS, random.uniform(0, 0.3), count)
        alarms += bool(named(steps[count], sending_of(*behind.tolist())))
    assert alarms <= 2
