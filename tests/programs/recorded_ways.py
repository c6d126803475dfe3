"""Train a small network, recorded in several ways: ``recorded_ways.py FOLDER WAY...``."""

import sys
import time

import torch
from torch import nn

import opscope


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 32), nn.ReLU()) for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def train(steps=12, step=None):
    network = Net()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for number in range(steps):
        if number == 0:
            time.sleep(0.05)  # a start-up that is long enough to be left out
        optimizer.zero_grad()
        network(torch.rand(16, 32)).sum().backward()
        optimizer.step()
        if step is not None:
            step()


def scheduled():
    with opscope.profile(
        schedule=opscope.schedule(wait=1, warmup=1, active=6, repeat=1),
        with_stack=True,
        record_shapes=True,
    ) as prof:
        train(8, prof.step)
    return prof.trace


def recorded(**options):
    with opscope.profile(record_shapes=True, **options) as prof:
        train()
    return prof.trace


WAYS = {
    "operators": lambda: recorded(),
    "functions": lambda: recorded(with_functions=True),
    "scheduled": scheduled,
}


if __name__ == "__main__":
    folder, *ways = sys.argv[1:]
    train(1)  # imports what the first optimizer does, which would be most of the recording
    for way in ways:
        WAYS[way]().save(f"{folder}/{way}.opscope")
