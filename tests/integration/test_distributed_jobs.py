"""Traces know which rank of which job recorded them, also once the job's group is gone."""

import subprocess
from pathlib import Path

import pytest

from opscope.storage.manifest import rank_folders
from opscope.storage.partition import RANK, Partition
from opscope.storage.read_part import load_part
from support.torch_processes import TorchProgram, run_torch

torch = pytest.importorskip("torch", reason="runs jobs of torch.distributed")

PROGRAM = Path(__file__).parents[1] / "programs" / "job_ends_first.py"
ATTEMPTS = 5 if torch.__version__.startswith("2.6.") else 1
"""Torch 2.6 waits for a thread of gloo's with the GIL, which that thread waits for: without opscope
6 of 40 such jobs hung."""


@pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this torch has no gloo",
)
def test_ranks_that_save_after_their_group_is_gone_keep_their_places(tmp_path):
    folders = (tmp_path / str(attempt) for attempt in range(ATTEMPTS))
    folder = next(folder for folder in folders if both_ranks_end(folder))
    assert sorted(rank_folders(folder / "trace")) == [0, 1]
    for rank in range(2):
        info = load_part(folder / "trace", Partition(RANK, rank)).metadata["distributedInfo"]
        assert (info["rank"], info["world_size"], info["backend"]) == (rank, 2, "gloo")


def both_ranks_end(folder):
    """False where one hangs, as this torch may do by itself."""
    folder.mkdir()
    processes = [
        TorchProgram(PROGRAM, rank, folder, added={"GLOO_SOCKET_IFNAME": "lo"}) for rank in range(2)
    ]
    try:
        assert [process.wait(timeout=300 / ATTEMPTS) for process in processes] == [0, 0]
        return True
    except subprocess.TimeoutExpired:
        if ATTEMPTS == 1:
            raise
        return False
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    ("rank", "size", "expected"),
    [("1", "4", {"rank": 1, "world_size": 4}), ("0", "1", None), ("4", "4", None), ("x", "", None)],
)
def test_without_a_group_the_launcher_says_which_rank_it_is(rank, size, expected):
    program = "import opscope\nwith opscope.profile() as p: pass\n"
    program += "print(p.trace.metadata.get('distributedInfo'))"
    done = run_torch("-c", program, added={"RANK": rank, "WORLD_SIZE": size})
    assert done.stdout == f"{expected}\n", done.stderr
