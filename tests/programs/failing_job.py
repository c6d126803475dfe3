"""One rank of a job on gloo in which rank 1 does not come to the end: ``failing_job.py HOW``.

It is killed (``kill``), or never joins the others (``absent``).
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import timedelta

STEPS, LAST = 30, 20


def main(how: str) -> None:
    fails = os.environ["RANK"] == "1"
    if fails and how == "absent":
        signal.pause()  # until the others have given up, and it is killed
    import torch
    import torch.distributed as dist

    timeout = timedelta(seconds=3) if how == "absent" else timedelta(minutes=3)
    dist.init_process_group("gloo", timeout=timeout)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        if fails and step == LAST and how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    main(*sys.argv[1:])
