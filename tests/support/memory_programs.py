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
def nothing() -> Callable[[], Any]:
    return lambda: None


@program
def only_allocations() -> Callable[[], Any]:
    return lambda: [torch.empty(64) for _ in range(3)]


@program
def forward_of_two_parameters() -> Callable[[], Any]:
    x = torch.ones(8)
    w = [torch.ones(8, requires_grad=True) for _ in range(2)]
    return lambda: torch.cat([x * w[0], x * w[1]]).sum()


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
def forward_of_a_module() -> Callable[[], Any]:
    model = perceptron()
    return lambda: model(torch.rand(5, 8))


@program
def backward_of_modules() -> Callable[[], Any]:
    model = perceptron(torch.nn.BatchNorm1d(16), Scale())
    return lambda: model(torch.rand(5, 8)).sum().backward()


@program
def sgd_from_the_first_step() -> Callable[[], Any]:
    model = perceptron()
    return training(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), 2)


@program
def sgd_keeping_gradients() -> Callable[[], Any]:
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return training(model, optimizer, 2, warm=True, set_to_none=False)


@program
def adam_after_a_step() -> Callable[[], Any]:
    model = perceptron()
    return training(model, torch.optim.Adam(model.parameters()), 2, warm=True)


@program
def foreach_adamw() -> Callable[[], Any]:
    model = perceptron()
    return training(model, torch.optim.AdamW(model.parameters(), foreach=True), 2)


@program
def fused_adam() -> Callable[[], Any]:
    model = perceptron()
    return training(model, torch.optim.Adam(model.parameters(), fused=True), 2)


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
def recurrent() -> Callable[[], Any]:
    model = torch.nn.LSTM(4, 8, num_layers=2)
    return lambda: model(torch.rand(3, 2, 4))[0].sum().backward()


@program
def attention() -> Callable[[], Any]:
    model = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1)
    return lambda: model(torch.rand(3, 2, 8)).sum().backward()


@program
def embeddings_with_sparse_gradients() -> Callable[[], Any]:
    model = torch.nn.Embedding(10, 4, sparse=True)
    return lambda: model(torch.tensor([1, 3, 3])).sum().backward()


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
def evaluation() -> Callable[[], Any]:
    model = perceptron(torch.nn.Dropout())
    model.eval()

    def run() -> None:
        with torch.no_grad():
            model(torch.rand(5, 8)).argmax(dim=1)

    return run


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
def indexing() -> Callable[[], Any]:
    x = torch.arange(12.0).reshape(3, 4).requires_grad_()

    def run() -> None:
        rows = torch.tensor([0, 2])
        x[rows, rows].sum().backward()
        y = torch.zeros(4)
        y[torch.tensor([1])] = 1.0
        y.index_add_(0, rows, torch.ones(2))

    return run


@program
def lists_of_tensors() -> Callable[[], Any]:
    def run() -> None:
        parts = [torch.ones(2, 3) for _ in range(3)]
        torch._foreach_add_(parts, 1.0)
        torch._foreach_norm(parts)
        torch.split(torch.stack(parts), 1)
        torch.einsum("ij,kj->ik", parts[0], parts[1])
        torch.block_diag(*parts)

    return run


@program
def many_dtypes() -> Callable[[], Any]:
    def run() -> None:
        x = torch.ones(3, dtype=torch.float64)
        (x + 1j).abs().to(torch.int32).div(2, rounding_mode="floor")
        (x > 0).any() and x.half().float()
        torch.gelu(x.float()) if hasattr(torch, "gelu") else torch.nn.functional.gelu(x.float())
        x.expand(5, 3).sum()
        torch.scalar_tensor(3.0) * 2

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


@program
def a_script() -> Callable[[], Any]:
    @torch.jit.script
    def scale(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x * w).relu() + 1

    w = torch.ones(8, requires_grad=True)
    scale(torch.rand(8), w)
    return lambda: scale(torch.rand(8), w).sum().backward()


@program
def annotations() -> Callable[[], Any]:
    def run() -> None:
        with torch.profiler.record_function("plain"):
            x = torch.ones(4)
            with torch.profiler.record_function("name::space"):
                x.zero_()
            with torch.profiler.record_function("aten::add_"):
                x.add_(1)

    return run


@program
def dispatch_in_python() -> Callable[[], Any]:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {}))

    w = torch.ones(4, requires_grad=True)

    def run() -> None:
        with Mode():
            (w * 2).sum().backward()

    return run


@program
def failing() -> Callable[[], Any]:
    def run() -> None:
        x = torch.ones(3)
        for _ in range(2):
            try:
                torch.mm(x, x)
            except RuntimeError:
                x = x + 1

    return run
