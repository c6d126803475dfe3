"""Two ranks that torch.multiprocessing starts, without a launcher: ``spawned_job.py SLOW_RANK``.

Each trains with gloo, and meanwhile another of its threads reduces in a group of its own. The slow
rank sleeps in every step.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time

import torch
import torch.distributed as dist

RANKS, STEPS, OTHERS = 2, 16, 6
SLEEP_S = 0.03


def beside(group: dist.ProcessGroup) -> None:
    for _ in range(OTHERS):
        dist.all_reduce(torch.ones(50), group=group)
        time.sleep(SLEEP_S)


def train(rank: int, slow: int, port: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    thread = threading.Thread(target=beside, args=(dist.new_group(),))
    thread.start()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(32, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        if rank == slow:
            time.sleep(SLEEP_S)
        model(torch.ones(4, 32)).sum().backward()
        optimizer.step()
    thread.join()
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(train, args=(int(sys.argv[1]), port), nprocs=RANKS)
