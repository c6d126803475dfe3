"""Small seeded programs, each with its own way of using memory; run one twice and it does the same.

Every program is a function that sets things up and returns what is to be recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Program = Callable[[], Callable[[], Any]]

PROGRAMS: dict[str, Program] = {}


def program(make: Program) -> Program:
    """Adds a program to the list, by its name."""
    PROGRAMS[make.__name__] = make
    return make


class Scale(torch.nn.Module):
    """Multiplies by one learned number."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scaled input."""
        return x * self.scale


class Square(torch.autograd.Function):
    """A node of the autograd graph that is written in Python."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """x squared."""
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        """Its derivative."""
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def perceptron(*extra: torch.nn.Module) -> torch.nn.Sequential:
    """Two linear layers with something between them."""
    between = extra or (torch.nn.ReLU(),)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), *between, torch.nn.Linear(16, 4))


def training(
    model: torch.nn.Module, optimizer: Any, steps: int, warm: bool = False, **zero: Any
) -> Any:
    """Steps of a training loop; if warm, one was taken before."""
    loss_of = torch.nn.MSELoss()

    def step() -> None:
        x, y = torch.rand(5, 8), torch.rand(5, 4)
        optimizer.zero_grad(**zero)
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()

    if warm:
        step()
    return lambda: [step() for _ in range(steps)]


@program
def forward_and_backward_of_two_parameters() -> Callable[[], Any]:
    x = torch.ones(8)
    w = [torch.ones(8, requires_grad=True) for _ in range(2)]
    return lambda: torch.cat([x * w[0], x * w[1]]).sum().backward()


@program
def steps_without_an_optimizer() -> Callable[[], Any]:
    x = torch.ones(8)
    w = [torch.ones(8, requires_grad=True) for _ in range(2)]

    def run() -> None:
        for _ in range(3):
            (x * w[0] * w[1]).sum().backward()
            with torch.no_grad():
                for p in w:
                    p.sub_(p.grad, alpha=0.1)
                    p.grad = None

    return run


@program
def backward_of_modules() -> Callable[[], Any]:
    model = perceptron(torch.nn.BatchNorm1d(16), Scale())
    return lambda: model(torch.rand(5, 8)).sum().backward()


@program
def sgd_from_the_first_step() -> Callable[[], Any]:
    model = perceptron()
    return training(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), 2)


@program
def adam_after_a_step() -> Callable[[], Any]:
    model = perceptron()
    return training(model, torch.optim.Adam(model.parameters()), 2, warm=True)


@program
def convolutions() -> Callable[[], Any]:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(inplace=True),
        torch.nn.Flatten(), torch.nn.Linear(4 * 36, 3),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def run() -> None:
        for _ in range(2):
            loss = torch.nn.functional.cross_entropy(
                model(torch.rand(2, 1, 8, 8)), torch.tensor([0, 2])
            )
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()

    return run


@program
def lazy_modules() -> Callable[[], Any]:
    model = torch.nn.Sequential(torch.nn.LazyLinear(8), torch.nn.LazyLinear(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def run() -> None:
        for _ in range(2):
            model(torch.rand(3, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    return run


@program
def attention() -> Callable[[], Any]:
    model = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1)
    return lambda: model(torch.rand(3, 2, 8)).sum().backward()


@program
def checkpointing() -> Callable[[], Any]:
    from torch.utils.checkpoint import checkpoint

    model = perceptron()
    x = torch.rand(5, 8, requires_grad=True)
    return lambda: checkpoint(model, x, use_reentrant=False).sum().backward()


@program
def a_function_of_our_own() -> Callable[[], Any]:
    model = perceptron()
    return lambda: Square.apply(model(torch.rand(5, 8))).sum().backward()


@program
def gradients_of_gradients() -> Callable[[], Any]:
    w = torch.rand(6, requires_grad=True)

    def run() -> None:
        (first,) = torch.autograd.grad((w**3).sum(), w, create_graph=True)
        first.sum().backward(retain_graph=True)
        first.sum().backward()

    return run


@program
def accumulated_gradients() -> Callable[[], Any]:
    model = perceptron()
    return lambda: [model(torch.rand(5, 8)).sum().backward() for _ in range(3)]


@program
def views_and_changes_in_place() -> Callable[[], Any]:
    def run() -> None:
        x = torch.zeros(4, 4)
        x.t()[0].add_(1)
        x.view(16)[3:5].mul_(2)
        y = torch.empty(0)
        torch.add(x, 1, out=y)
        y.resize_(8, 8).fill_(0)
        x.set_(y)
        x.copy_(torch.ones(8, 8))

    return run


@program
def sparse_tensors() -> Callable[[], Any]:
    def run() -> None:
        x = torch.eye(4)
        s = x.to_sparse()
        (s @ x).sum()
        x.to_sparse_csr().to_dense()

    return run


@program
def nested_tensors() -> Callable[[], Any]:
    def run() -> None:
        nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])
        (nested + nested).to_padded_tensor(0.0)

    return run
