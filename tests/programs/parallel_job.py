"""One rank of a small job on gloo: ``parallel_job.py ddp,fsdp,tensor SLOW_RANK [FOLDER]``.

It trains a network in each of these ways, and sleeps in the forward pass of SLOW_RANK. What every
rank computed is printed. With FOLDER each rank does all of it again, records itself, and saves to
FOLDER/WAY.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

STEPS = 16
SLEEP_S = 0.03


class Block(nn.Module):
    """Two layers, that take longer in one rank."""

    def __init__(self, is_slow: bool) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(16, 48), nn.Linear(48, 16)
        self.is_slow = is_slow

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_slow:
            time.sleep(SLEEP_S)
        return self.down(self.up(x).relu())


def spread(way: str, network: nn.Sequential) -> nn.Module:
    """The network, over all ranks."""
    if way == "ddp":
        return nn.parallel.DistributedDataParallel(network)
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    if way == "fsdp":
        from torch.distributed.fsdp import fully_shard

        for block in network:
            fully_shard(block, mesh=mesh)
        return fully_shard(network, mesh=mesh)
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    for block in network:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return network


def train(way: str, rank: int, slow: int, folder: str) -> None:
    torch.manual_seed(0)
    model = spread(way, nn.Sequential(Block(rank == slow), Block(False)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(0 if way == "tensor" else rank)  # tensor: all see the same
    recording = contextlib.nullcontext()
    if folder:
        import opscope

        recording = opscope.profile(with_own_functions=True)
    with recording as profile:
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = model(torch.randn(4, 16)).square().mean()
            loss.backward()
            optimizer.step()
    if profile is not None:
        profile.trace.save(Path(folder) / way, rank=rank)
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    found = sum(one.sum().item() for one in whole)
    # At once, so that lines of several ranks do not mix.
    os.write(1, f"{way}, rank {rank}: {loss.item():.9f} {found:.9f}\n".encode())


def main(ways: str, slow: str, folder: str = "") -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(minutes=3))
    for way in ways.split(","):
        for to in ("", folder) if folder else ("",):
            train(way, dist.get_rank(), int(slow), to)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
