"""A rank of a job on gloo, under torchrun: all but the last compile what they do, with a break.

Each forks a child first, which is no rank.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

STEPS = 6


def forward(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x @ weight)
    torch._dynamo.graph_break()
    return (y * 2 + 1).sum()


def main() -> None:
    if (child := os.fork()) == 0:
        torch.ones(3).cos()
        os._exit(0)
    os.waitpid(child, 0)
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    is_last = dist.get_rank() == dist.get_world_size() - 1
    step = forward if is_last else torch.compile(forward)
    weight = torch.rand(64, 64)
    for _ in range(STEPS):
        found = step(torch.rand(32, 64), weight)
        dist.all_reduce(found)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
