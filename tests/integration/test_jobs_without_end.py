"""A job whose ranks were all killed: what they recorded is a job of what there is."""

import pytest

import opscope
from support.processes import opscope_here
from support.torch_processes import run_torch

pytest.importorskip("torch", reason="records a program")

PROGRAM = """
import os, signal, sys, torch, opscope
with opscope.profile(stream_to=sys.argv[1], keeper=False):
    for _ in range(int(sys.argv[2])):
        torch.ones(3).neg()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed") / "job.opscope"
    for rank in range(2):
        ranks = {"RANK": str(rank), "WORLD_SIZE": "3"}
        run_torch("-c", PROGRAM, folder, 10 * (rank + 1), added=ranks)
    return folder


def test_ranks_are_there_and_answer_before_they_are_recovered_and_afterwards(folder):
    query = "select rank, count(*) from named_events where name = 'aten::neg' group by 1 order by 1"
    job = opscope.load(folder)
    assert isinstance(job, opscope.Job)
    assert job.ranks == [0, 1]
    assert job.missing_ranks() == "rank 2 of 3 is not in this folder"
    assert job.sql(query).fetchall() == [(0, 10), (1, 20)]
    assert len(job.together().events) == sum(len(job[rank].events) for rank in job.ranks)
    assert opscope_here("doctor", "--recover", folder).returncode == 0
    assert opscope.load(folder).sql(query).fetchall() == [(0, 10), (1, 20)]
