"""Steps of ranks side by side: by their numbers, with and without waiting for others."""

import numpy as np

from opscope.columns.causes import Cause
from opscope.jobs.rank_steps import NONE, RankSteps
from opscope.storage.partition import Partition
from support.build_trace import build_trace, span
from support.rolled_up import rank_steps
from support.step_programs import rank_program


def ranks(*traces):
    return rank_steps(traces)


def test_own_time_is_without_collectives():
    found = ranks(rank_program(3), rank_program(3, work_us=140, wait_us=10))
    assert found.number.tolist() == [0, 1, 2]
    assert found.wall_ns.tolist() == [[150_000] * 3, [150_000] * 3]
    assert found.own_ns.tolist() == [[100_000] * 3, [140_000] * 3]
    assert found.cause_ns[:, Cause.COLLECTIVE].tolist() == [150_000, 30_000]
    assert found.mean_own_ns.tolist() == [100_000, 140_000]
    assert repr(found).endswith(" a step:\n  rank 0: 100 µs\n  rank 1: 140 µs>")


def test_steps_are_beside_those_of_the_same_number():
    found = ranks(rank_program(2), rank_program(2, first=1))
    assert found.number.tolist() == [0, 1, 2]
    assert (found.wall_ns == NONE).tolist() == [[False, False, True], [True, False, False]]
    assert (found.own_ns == NONE).tolist() == (found.wall_ns == NONE).tolist()


def test_a_rank_without_steps_has_causes_only():
    found = ranks(rank_program(2), build_trace([span("aten::mm", 0, 7)]))
    assert found.wall_ns[1].tolist() == [NONE, NONE]
    assert np.isnan(found.mean_own_ns[1]) and "rank 1: no steps" in repr(found)
    assert found.cause_ns[1, Cause.OPERATOR] == 7_000
    none = ranks()
    assert none.number.size == 0 and none.wall_ns.shape == (0, 0)


def test_a_picture_of_few_has_who_matters():
    own_ns = np.array([[50], [10], [30], [90], [40], [20], [70], [60], [80]])
    processes = tuple(Partition("rank", n) for n in range(9))
    table_ns = np.zeros((9, 1, len(Cause)))
    number = np.zeros(1, dtype=np.int64)
    steps = RankSteps(processes, number, own_ns, own_ns, table_ns, table_ns[:, 0], "")
    for most in (0, 1, 2, 3, 8):
        shown = {part.number for part in steps.worth_showing(most)}
        assert len(shown) == most
        if most > 2:
            assert {3, 0, 1} <= shown  # slowest, median, quickest
    assert steps.worth_showing(9) == list(processes)
