"""Networks, optimizers and steps that several programs train, and how often these do something."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.advice.program import Body, Variants

Step = Callable[[Tensor, Tensor], Tensor]
Round = Callable[[Tensor], Tensor]


def perceptron(width: int = 128, depth: int = 3) -> nn.Sequential:
    """A multilayer perceptron."""
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def trainer(network: nn.Module, lr: float = 1e-3) -> Step:
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


def in_every_step(
    steps: int, work: Callable[[], object], network: nn.Module | None = None, size: int = 128
) -> Variants:
    """Train a perceptron, and do ``work`` in every step; or in the last step alone."""
    network = perceptron() if network is None else network
    width = next(network.parameters()).shape[1]
    step, (data, target) = trainer(network), batch(size, width)

    def train(every: bool) -> None:
        for number in range(steps):
            step(data, target)
            if every or number == steps - 1:
                work()

    return lambda: train(True), lambda: train(False)


def repeated(rounds: int, faulty: Body, fixed: Body, *, gradients: bool = True) -> Variants:
    """Do one or the other so often."""

    def run(body: Body) -> None:
        with torch.set_grad_enabled(gradients):
            body()

    faulty, fixed = always(rounds, faulty), always(rounds, fixed)
    return lambda: run(faulty), lambda: run(fixed)


def always(rounds: int, body: Body) -> Body:
    """Do this so often."""

    def run() -> None:
        for _ in range(rounds):
            body()

    return run
