"""Slow senders: named when their messages leave much more slowly than those of others."""

import numpy as np
import pytest

from opscope.analysis.account.causes import Cause
from opscope.job.rank_steps import NONE, RankSteps
from opscope.job.slow_senders import SlowSenders, find_slow_senders
from opscope.trace.partition import Partition
from opscope.trace.sent import Sent

STEPS = 20
STEP_NS, COLLECTIVE_NS = 50_000_000, 30_000_000


def ranks(count):
    return tuple(Partition("rank", number) for number in range(count))


def steps_of(count, collective_ns=COLLECTIVE_NS, steps=STEPS):
    table = np.zeros((count, steps, len(Cause)), dtype=np.int64)
    table[:, :, Cause.COLLECTIVE] = collective_ns
    table[:, :, Cause.OPERATOR] = STEP_NS - collective_ns
    wall, own = table.sum(axis=2), table[:, :, Cause.OPERATOR]
    return RankSteps(ranks(count), np.arange(steps), wall, own, table, table.sum(axis=1), "")


def sent_of(*milliseconds, steps=STEPS):
    return {
        part: Sent(steps * 1_000_000, int(steps * one * 1e6))
        for part, one in zip(ranks(len(milliseconds)), milliseconds, strict=True)
    }


def test_the_rank_whose_messages_leave_slowly_is_named_with_what_it_costs():
    (slow,) = find_slow_senders(steps_of(4), sent_of(4, 3, 25, 5)).found
    assert slow.process == Partition("rank", 2)
    assert (slow.sending_ns, slow.others_ns) == (25e6, 4e6)
    assert (slow.arrived_bytes, slow.step_ns, slow.gain_ns) == (1e6, STEP_NS, 20e6)
    assert str(slow).startswith(
        "rank 2 sends slowly, or where it sends to receives slowly: in 25.0 ms"
    )
    assert "the middle one of the others in 4.00 ms, for 977 KiB a step" in str(slow)
    assert str(slow).endswith("a step would take up to 40% less if it were as quick as the next.")
    assert slow.as_dict()["rank"] == 2 and slow.as_dict()["gain_ns"] == 20_000_000


def test_no_more_can_be_gained_than_is_spent_in_collectives():
    (slow,) = find_slow_senders(steps_of(2, collective_ns=8_000_000), sent_of(2, 40)).found
    assert slow.gain_ns == 8e6
    assert not find_slow_senders(steps_of(2, collective_ns=2_000_000), sent_of(2, 40)).found


@pytest.mark.parametrize(
    "milliseconds",
    [
        pytest.param((12, 10, 15, 11), id="alike"),
        pytest.param((1, 1, 4, 1), id="little of a step"),
        pytest.param((2, 20, 40, 12, 30), id="all differ"),
        pytest.param((0, 0, 0), id="nothing"),
    ],
)
def test_nobody_is_named_where_ranks_are_alike_or_it_is_little(milliseconds):
    assert not find_slow_senders(steps_of(len(milliseconds)), sent_of(*milliseconds)).found


def test_ranks_of_which_nothing_is_known_are_passed_over():
    steps = steps_of(4)
    steps.wall_ns[3] = NONE
    sent = sent_of(30, 3, 4, 5)
    del sent[Partition("rank", 1)]
    (slow,) = find_slow_senders(steps, sent).found
    assert (slow.process, slow.others_ns) == (Partition("rank", 0), 4e6)
    assert find_slow_senders(steps, {Partition("rank", 0): Sent(1, 1)}) == SlowSenders()


def test_who_sends_on_what_the_slowest_sent_is_not_named_with_it():
    sent = sent_of(10, 9, 84, 28, 11, 26, 10, 32)
    (slow,) = find_slow_senders(steps_of(8, collective_ns=49_000_000), sent).found
    assert slow.process == Partition("rank", 2)
    assert slow.gain_ns == 49e6


def test_of_two_that_are_alike_neither_would_gain_anything_alone():
    slow = find_slow_senders(steps_of(6), sent_of(3, 4, 40, 40, 3, 4)).found
    assert [one.process.number for one in slow] == [2, 3]
    assert [one.gain_ns for one in slow] == [0, 0]
    assert all(str(one).endswith("All wait for it in collectives.") for one in slow)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_from_what_on_a_rank_would_be_named_is_said(count):
    steps, usual = steps_of(count), [5.0] * count
    least = find_slow_senders(steps, sent_of(*usual)).least_ns / 1e6
    for more, expected in ((0.9, []), (1.1, [1])):
        one = [*usual]
        one[1] += more * least
        told = find_slow_senders(steps, sent_of(*one))
        assert [slow.process.number for slow in told.found] == expected
        assert not expected or told.least_ns == pytest.approx(least * 1e6)


def test_a_few_ticks_of_the_kernel_are_chance():
    """It counts by 4 ms, so that 35 ms of five steps are nine ticks, and 140 ms of twenty 35."""
    for steps, expected in ((5, []), (20, [1])):
        found = find_slow_senders(steps_of(2, steps=steps), sent_of(0.8, 7, steps=steps)).found
        assert [slow.process.number for slow in found] == expected
