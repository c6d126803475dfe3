"""One rank of a job on gloo in which rank 1 is killed."""

from __future__ import annotations

import os
import signal
from datetime import timedelta

import torch
import torch.distributed as dist

STEPS, LAST = 30, 20


def main() -> None:
    dist.init_process_group("gloo", timeout=timedelta(minutes=3))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        if dist.get_rank() == 1 and step == LAST:
            os.kill(os.getpid(), signal.SIGKILL)
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
