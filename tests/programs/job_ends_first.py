"""One of two ranks that takes its process group down before it looks at what it recorded.

``job_ends_first.py RANK FOLDER`` saves to ``FOLDER/trace``, which the ranks share.
"""

import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

import opscope


def main(rank: int, folder: Path) -> None:
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=2,
        timeout=timedelta(minutes=3),
    )
    with opscope.profile() as profile:
        dist.all_reduce(torch.ones(2))
    dist.barrier()
    dist.destroy_process_group()
    profile.trace.save(folder / "trace")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
