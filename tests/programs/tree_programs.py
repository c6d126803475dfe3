"""Small programs, each with another kind of nesting.

Every function sets one up and returns what is to be recorded. None frees what it did not allocate
while recorded: whether torch reports such a free depends on what was recorded earlier.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.profiler import record_function
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint

Made = Callable[[], object]


class Talkative(torch.Tensor):
    """Hears of every function called on it."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Does what would have been done."""
        return super().__torch_function__(func, types, args, kwargs)


class Wrapped(torch.Tensor):
    """Hears of every operator that reaches the dispatcher."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapped:
        wrapped: Wrapped = torch.Tensor._make_subclass(cls, inner, inner.requires_grad)
        wrapped.inner = inner
        return wrapped

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the operator on what is inside."""
        plain = tree_map(lambda x: x.inner if isinstance(x, Wrapped) else x, (args, kwargs or {}))
        result = func(*plain[0], **plain[1])
        return tree_map(lambda x: Wrapped(x) if isinstance(x, torch.Tensor) else x, result)


class Double(torch.autograd.Function):
    """A node of the backward pass that is written in Python."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """Twice x."""
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        """Its derivative."""
        return gradient * 2


class Block(torch.nn.Module):
    """Two layers of one class and one of another."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.between = torch.nn.Linear(3, 3), torch.nn.ReLU()
        self.second = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One after the other."""
        hidden: torch.Tensor = self.between(self.first(x))
        result: torch.Tensor = self.second(hidden)
        return result


def differentiate() -> Made:
    weight, bias = (torch.ones(2, requires_grad=True) for _ in range(2))

    def run() -> None:
        distance = torch.zeros(2) - torch.mul(weight, bias)
        (distance**2).sum().backward()

    return run


def annotate() -> Made:
    kept: list[object] = []  # what is left open ends with its object

    def run() -> None:
        with record_function("whole"):
            with record_function("input"):
                x = torch.ones(1, requires_grad=True)
            kept.append(record_function("never closed").__enter__())
            y = x * 3
            with record_function("backward"):
                y.backward()
        torch.zeros(1)

    return run


def annotate_and_close() -> Made:
    def run() -> None:
        with record_function("whole"):
            with record_function("input"):
                x = torch.ones((), requires_grad=True)
            with record_function("backward"):
                (-x).backward()
        torch.zeros(1)

    return run


def call_modules() -> Made:
    block, x = Block(), torch.ones(1, 3)
    return lambda: block(x)


def train() -> Made:
    block = Block()
    optimizer = torch.optim.SGD(block.parameters(), lr=0.1, momentum=0.9)
    x = torch.ones(4, 3)

    def run() -> None:
        optimizer.zero_grad()
        block(x).sum().backward()
        optimizer.step()

    return run


def call_torch_function() -> Made:
    x, y = Talkative(torch.ones(2)), torch.ones(2)
    return lambda: torch.mul(x, y)


def dispatch_in_python() -> Made:
    x, y = Wrapped(torch.ones(2)), torch.ones(2)
    return lambda: x * y


def differentiate_own_function() -> Made:
    x = torch.ones(2, requires_grad=True)
    return lambda: Double.apply(x).sum().backward()


def recompute() -> Made:
    block, x = Block(), torch.ones(1, 3, requires_grad=True)
    return lambda: checkpoint(block, x, use_reentrant=False).sum().backward()


def free_and_raise() -> Made:
    def run() -> None:
        large = torch.ones(100)
        try:
            torch.mm(large, large)
        except RuntimeError:
            del large
        torch.ones(3).add_(1)

    return run
