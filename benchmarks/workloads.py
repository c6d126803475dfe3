"""The two programs that are profiled: one with almost no work per operator, one that trains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

Unit = Callable[[], None]


@dataclass(frozen=True)
class Workload:
    """A program that can be repeated.

    Attributes:
        name: shown in the results.
        build: makes the function that runs one unit, in the process that will run it.
        units: in one measurement.
    """

    name: str
    build: Callable[[], Unit]
    units: int

    def scaled(self, share: float) -> Workload:
        """The same program with another number of units."""
        return Workload(self.name, self.build, max(20, int(self.units * share)))


def small_operators() -> Unit:
    """A thousand additions of four numbers: as many operators per second as there can be."""
    left, right, add = torch.ones(4), torch.ones(4), torch.add

    def unit() -> None:
        for _ in range(1000):
            add(left, right)

    return unit


def training(model: nn.Module, loss: Callable[[], torch.Tensor]) -> Unit:
    """A step of SGD."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def unit() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return unit


def training_step() -> Unit:
    """Forward, backward and AdamW on a small convolutional network."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    images, labels = torch.randn(4, 1, 8, 8), torch.randint(10, (4,))

    def unit() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return unit


SMALL_OPERATORS = Workload("small operators", small_operators, units=100)
TRAINING = Workload("training loop", training_step, units=500)
WORKLOADS = (SMALL_OPERATORS, TRAINING)
