"""Small programs of one thread, each with a size of its own; ``effects.py`` knows what each does.

A primitive makes what it uses and lets go of it, so that it frees what it allocates and does the
same every time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Primitive:
    """What to run, and which modules and optimizers it calls; with ``unsure``, which perhaps."""

    run: Callable[[int], object]
    modules: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()
    optimizers: tuple[str, ...] = ()


class Broken(Exception):
    """Raised where a primitive is meant to fail."""


def _made(size: int) -> torch.Tensor:
    return torch.full((size,), 1.0)


def _fails_in_an_operator(size: int) -> None:
    with contextlib.suppress(RuntimeError):
        torch.mm(_made(size).view(1, size), _made(size).view(1, size))


def _runs_backward(size: int) -> None:
    _made(size).requires_grad_().neg().sum().backward()


class _Twice(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x * 2

    @staticmethod
    def backward(context, gradient):
        return gradient.sin()


def _runs_backward_in_python(size: int) -> None:
    _Twice.apply(_made(size).requires_grad_()).sum().backward()


def _raise(*_: object) -> None:
    raise Broken


def _fails_in_backward(size: int) -> None:
    made = _made(size).requires_grad_()
    between = made.neg()
    between.register_hook(_raise)
    with contextlib.suppress(Broken):
        between.sum().backward()


def _steps(size: int) -> None:
    parameter = _made(size).requires_grad_()
    parameter.grad = _made(size)
    torch.optim.SGD([parameter], lr=0.1, foreach=False).step()


class Inner(torch.nn.Module):
    def forward(self, x):
        return x.neg()


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x) + self.inner(x)


class Failing(torch.nn.Module):
    def forward(self, x):
        x.neg()
        raise Broken


class Leaving(torch.nn.Module):
    """Whose last reference goes away while it is called."""

    def forward(self, x, holders):
        holders.clear()
        return x.neg()


def _calls_modules(size: int) -> None:
    Outer()(_made(size))


def _fails_in_forward(size: int) -> None:
    with contextlib.suppress(Broken):
        Failing()(_made(size))


def _fails_in_a_hook_before(size: int) -> None:
    module = Inner()
    module.register_forward_pre_hook(_raise)
    with contextlib.suppress(Broken):
        module(_made(size))


def _fails_in_a_hook_after(size: int) -> None:
    module = Inner()
    module.register_forward_hook(_raise)
    with contextlib.suppress(Broken):
        module(_made(size))


def _gives_bad_arguments(size: int) -> None:
    with contextlib.suppress(TypeError):
        Inner()(1, 2, 3)
    with contextlib.suppress(AttributeError):
        Inner()("no tensor")


def _gives_self_twice(size: int) -> None:
    with contextlib.suppress(TypeError):
        Inner()(_made(size), self=1)


def _calls_the_function(size: int) -> None:
    torch.nn.Module.__call__(Inner(), _made(size))


def _calls_a_new_class(size: int) -> None:
    made = type("Late", (Inner,), {"forward": lambda self, x: x.neg()})
    made()(_made(size))


def _lets_a_module_go(size: int) -> None:
    holders = [Leaving()]
    holders[0](_made(size), holders)


PRIMITIVES: dict[str, Primitive] = {
    "makes": Primitive(_made),
    "chains": Primitive(lambda size: _made(size).neg().sin_().abs()),
    "views": Primitive(lambda size: _made(size).view(1, size)[0][1:5]),
    "reduces": Primitive(lambda size: _made(size).sum().item()),
    "joins": Primitive(lambda size: torch.cat([_made(size), _made(size)])),
    "indexes": Primitive(lambda size: _made(size)[torch.zeros(3, dtype=torch.long), None]),
    "converts": Primitive(lambda size: _made(size).to(torch.float64).bool()),
    "sorts": Primitive(lambda size: _made(size).sort(descending=True)),
    "is sparse": Primitive(lambda size: _made(size).to_sparse().to_dense()),
    "fails in an operator": Primitive(_fails_in_an_operator),
    "runs backward": Primitive(_runs_backward),
    "runs backward in Python": Primitive(_runs_backward_in_python),
    "fails in backward": Primitive(_fails_in_backward),
    "steps": Primitive(_steps, optimizers=("SGD",)),
    "calls modules": Primitive(_calls_modules, modules=("Outer", "Inner", "Inner")),
    "fails in forward": Primitive(_fails_in_forward, modules=("Failing",)),
    "fails in a hook before": Primitive(_fails_in_a_hook_before, modules=("Inner",)),
    "fails in a hook after": Primitive(_fails_in_a_hook_after, modules=("Inner",)),
    "gives bad arguments": Primitive(_gives_bad_arguments, modules=("Inner", "Inner")),
    "gives self twice": Primitive(_gives_self_twice, unsure=("Inner",)),
    "calls the function": Primitive(_calls_the_function, unsure=("Inner",)),
    "calls a new class": Primitive(_calls_a_new_class, modules=("Late",)),
    "lets a module go": Primitive(_lets_a_module_go, modules=("Leaving",)),
}
