"""The ranks of a job in the page: their names, causes, and times that survive packing."""

import numpy as np

from opscope.columns.causes import Cause
from opscope.jobs.collectives import job_collectives
from opscope.jobs.rank_steps import NONE, RankSteps
from opscope.jobs.slow_ranks import find_slow_ranks
from opscope.report.packing import Packer
from opscope.report.rank_section import rank_section
from opscope.storage.partition import Partition
from support.job_of_collectives import rank_trace
from support.read_report import unpack


def compared(wall_ns):
    wall_ns = np.array(wall_ns, dtype=np.int64)
    causes = np.zeros((len(wall_ns), len(Cause)), dtype=np.int64)
    causes[:, Cause.OPERATOR] = np.arange(len(wall_ns)) + 1
    processes = tuple(Partition("rank", number) for number in range(len(wall_ns)))
    table = np.zeros((*wall_ns.shape, len(Cause)), dtype=np.int64)
    numbers = np.arange(wall_ns.shape[1])
    steps = RankSteps(processes, numbers, wall_ns, wall_ns // 2, table, causes, "")
    return find_slow_ranks(steps)


def nothing():
    return job_collectives([])


def test_times_are_packed_by_rank_and_step():
    packer = Packer()
    section = rank_section(
        compared([[300, NONE], [70_000, 5]]), nothing(), [Partition("rank", 1)], packer
    )
    found = unpack(packer.finish(), packer.directory)
    assert found["rankTime"].tolist() == [301, 0, 70_001, 6]
    assert found["rankOwn"].tolist() == [151, 0, 35_001, 3]
    assert section["sentences"][0].startswith("0 of 2 processes have 5 steps or more")
    assert section["names"] == ["rank 0", "rank 1"]
    assert section["onTimeline"] == [False, True]
    assert section["steps"] == [0, 1] and section["allSteps"] == 2
    assert section["causes"] == [Cause.OPERATOR.title]
    assert section["causeTimes"] == [[1], [2]]


def test_what_ranks_did_together_is_in_tables_of_text():
    calls = [("barrier", (), at, at + 10, at + 40) for at in range(0, 500, 100)]
    parts = [Partition("rank", number) for number in range(2)]
    found = job_collectives((part, rank_trace(range(2), calls)) for part in parts)
    section = rank_section(compared(np.ones((2, 9))), found, [], Packer())["together"]
    kinds, ranks = section["tables"]
    assert kinds["rows"][0][:3] == ["barrier, 2 ranks", "5", "30.0 µs"]
    assert [row[0] for row in ranks["rows"]] == ["rank 0", "rank 1"]
    assert all(
        len(row) == len(table["heading"]) for table in (kinds, ranks) for row in table["rows"]
    )
    assert section["sentences"] == ["All processes ran on one machine (here) with one clock."]
    empty = rank_section(compared(np.ones((2, 9))), nothing(), [], Packer())["together"]
    assert empty["tables"] == [] and empty["sentences"][0].startswith(
        "No collective was recorded by several"
    )
