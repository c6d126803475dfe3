"""The ranks of a job in the page: their names, causes, and times that survive packing."""

import base64
import zlib

import numpy as np

from opscope.analysis.account.causes import Cause
from opscope.job.rank_steps import NONE, RankSteps
from opscope.job.slow_ranks import find_slow_ranks
from opscope.report.packing import Packer
from opscope.report.rank_section import MOST_STEPS, rank_section
from opscope.trace.partition import Partition


def compared(wall_ns):
    wall_ns = np.array(wall_ns, dtype=np.int64)
    causes = np.zeros((len(wall_ns), len(Cause)), dtype=np.int64)
    causes[:, Cause.OPERATOR] = np.arange(len(wall_ns)) + 1
    processes = tuple(Partition("rank", number) for number in range(len(wall_ns)))
    table = np.zeros((*wall_ns.shape, len(Cause)), dtype=np.int64)
    numbers = np.arange(wall_ns.shape[1])
    steps = RankSteps(processes, numbers, wall_ns, wall_ns // 2, table, causes, "")
    return find_slow_ranks(steps)


def unpacked(packer):
    text = zlib.decompress(base64.b64decode(packer.finish()))
    found, at = {}, 0
    for column in packer.directory:
        count, values = column["count"], 0
        for plane in range(column["planes"]):
            part = np.frombuffer(text[at : at + count], dtype=np.uint8).astype(np.int64)
            values, at = values + (part << (8 * plane)), at + count
        found[column["name"]] = values
    return found


def test_times_are_packed_by_rank_and_step():
    packer = Packer()
    section = rank_section(compared([[300, NONE], [70_000, 5]]), [Partition("rank", 1)], packer)
    found = unpacked(packer)
    assert found["rankTime"].tolist() == [301, 0, 70_001, 6]
    assert found["rankOwn"].tolist() == [151, 0, 35_001, 3]
    assert section["said"][0].startswith("0 of 2 processes have 5 steps or more")
    assert section["names"] == ["rank 0", "rank 1"]
    assert section["onTimeline"] == [False, True]
    assert section["steps"] == [0, 1] and section["allSteps"] == 2
    assert section["causes"] == [Cause.OPERATOR.title]
    assert section["causeTimes"] == [[1], [2]]


def test_of_many_steps_the_first_are_shown():
    packer = Packer()
    section = rank_section(compared(np.ones((2, MOST_STEPS + 7))), [], packer)
    assert len(section["steps"]) == MOST_STEPS and section["allSteps"] == MOST_STEPS + 7
    assert len(unpacked(packer)["rankTime"]) == 2 * MOST_STEPS
