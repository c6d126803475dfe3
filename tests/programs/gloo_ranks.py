"""One of two ranks that communicate over gloo under torch's observer and opscope's at once.

``gloo_ranks.py RANK FOLDER`` writes ``torch.RANK.json`` and ``opscope.RANK.json``.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

import opscope


def communicate(rank: int, group: dist.ProcessGroup) -> None:
    tensor = torch.ones(4, 3) * rank
    dist.all_reduce(tensor)
    dist.all_gather([torch.empty(4, 3) for _ in range(2)], tensor, group=group)
    dist.broadcast(tensor, 0)
    dist.all_to_all_single(torch.empty(4), torch.rand(4), [2, 2], [2, 2])
    dist.reduce_scatter_tensor(torch.empty(4), torch.rand(8))
    if rank == 0:
        dist.send(tensor, 1, tag=5)
    else:
        dist.recv(tensor, 0, tag=5)
    dist.all_reduce(tensor, async_op=True).wait()
    dist.barrier()


def main(rank: int, folder: Path) -> None:
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=2,
        timeout=timedelta(minutes=3),
    )
    group = dist.new_group([0, 1], group_desc="tensor parallel")
    communicate(rank, group)  # connections
    theirs = torch.profiler.ExecutionTraceObserver()
    theirs.register_callback(str(folder / f"torch.{rank}.json"))
    ours = opscope.ExecutionTraceObserver().register_callback(folder / f"opscope.{rank}.json")
    ours.start()
    theirs.start()
    communicate(rank, group)
    theirs.stop()
    ours.stop()
    theirs.unregister_callback()
    ours.unregister_callback()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
