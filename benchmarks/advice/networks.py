"""Networks, optimizers and steps that several programs train."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def perceptron(width: int = 128, depth: int = 3) -> nn.Sequential:
    """A multilayer perceptron."""
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def trainer(network: nn.Module, lr: float = 1e-3) -> Callable[[Tensor, Tensor], Tensor]:
    """One step of training: forward, backward, fused Adam."""
    optimizer = torch.optim.Adam(network.parameters(), lr=lr, fused=True)

    def step(data: Tensor, target: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(data), target)
        loss.backward()
        optimizer.step()
        return loss

    return step


def batch(size: int = 128, width: int = 128) -> tuple[Tensor, Tensor]:
    """Data and targets for a perceptron."""
    return torch.randn(size, width), torch.randint(10, (size,))
