"""Traces know which rank of which job recorded them, also once the job's group is gone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.recorded import run_python

from opscope.trace.read_part import load_folder, ranks

torch = pytest.importorskip("torch", reason="runs jobs of torch.distributed")

PROGRAM = Path(__file__).parents[1] / "programs" / "job_ends_first.py"


@pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this torch has no gloo",
)
def test_ranks_that_save_after_their_group_is_gone_keep_their_places(tmp_path):
    processes = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), str(rank), str(tmp_path)],
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
        )
        for rank in range(2)
    ]
    assert [process.wait(timeout=300) for process in processes] == [0, 0]
    assert ranks(tmp_path / "trace") == [0, 1]
    for rank in range(2):
        info = load_folder(tmp_path / "trace", rank).metadata["distributedInfo"]
        assert (info["rank"], info["world_size"], info["backend"]) == (rank, 2, "gloo")


@pytest.mark.parametrize(
    ("rank", "size", "expected"),
    [("1", "4", {"rank": 1, "world_size": 4}), ("0", "1", None), ("4", "4", None), ("x", "", None)],
)
def test_without_a_group_the_launcher_says_which_rank_it_is(rank, size, expected):
    program = "import opscope\nwith opscope.profile() as p: pass\n"
    program += "print(p.trace.metadata.get('distributedInfo'))"
    assert run_python(program, RANK=rank, WORLD_SIZE=size) == f"{expected}\n"
