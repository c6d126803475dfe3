"""Small seeded programs that between them use every kind of argument and nesting torch reports.

Each is called once before anything is recorded, so that caches and lazy imports are out of the way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch
from torch.nn import functional as F
from torch.profiler import record_function

PROGRAMS: list[Callable[[], object]] = []


def program(function: Callable[[], object]) -> Callable[[], object]:
    PROGRAMS.append(function)
    return function


def mlp() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))


def train(optimizer_class: type[torch.optim.Optimizer], **options: object) -> None:
    model = mlp()
    optimizer = optimizer_class(model.parameters(), lr=0.1, **options)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(3, 4)).square().mean().backward()
        optimizer.step()


@program
def train_with_sgd() -> None:
    train(torch.optim.SGD, momentum=0.9)


@program
def train_with_adamw() -> None:
    train(torch.optim.AdamW)


@program
def convolution() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(2, 4, 3, padding=1, groups=2),
        torch.nn.BatchNorm2d(4),
        torch.nn.MaxPool2d(2),
        torch.nn.Dropout(0.5),
        torch.nn.Flatten(),
    )
    model(torch.randn(2, 2, 6, 6)).sum().backward()


@program
def attention() -> None:
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(2, 5, 8, requires_grad=True)
    layer(x, x, x)[0].sum().backward()
    q = torch.randn(1, 2, 4, 8)
    F.scaled_dot_product_attention(q, q, q, is_causal=True)


@program
def indexing() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    rows = torch.tensor([0, 1])
    x[rows]
    x[:, rows]
    x[rows, :, rows]
    x[None, ..., 1:3, ::2]
    x[x > 3]
    x[:, torch.tensor([True, False, True])] = 1.0
    x[rows, rows] += 2
    torch.ops.aten.index(x, [None, rows])


@program
def lists_of_tensors() -> None:
    x = torch.ones(2, 3)
    torch.cat([x, x, torch.zeros(0)])
    torch.stack([x] * 5, dim=-1)
    torch.split(x, [1, 2], dim=1)
    torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")
    torch.block_diag(x, x)
    torch._foreach_add([x, x], [x, x], alpha=2)
    torch._foreach_mul([x, torch.ones(1)], [2.0, 3.0])
    torch.einsum("ij,kj->ik", x, x)
    torch.linalg.multi_dot([x, x.T, x])
    torch.broadcast_tensors(x, torch.ones(3))


@program
def scalars() -> None:
    x = torch.ones(3)
    x + 1
    x * 2.5
    x / True
    1 / x
    torch.add(x, x, alpha=0.1)
    torch.full((2, 2), 3)
    torch.full((2,), float("inf"))
    torch.full((2,), float("nan"))
    torch.full((2,), -0.0)
    torch.full((2,), 1e300, dtype=torch.float64)
    torch.full((2,), 12345678901234.0)
    torch.full((2,), 1e10)
    torch.full((2,), 9999999999.0)
    torch.full((2,), 0.1)
    torch.full((2,), 1 / 3)
    torch.full((2,), 1e-310)
    torch.full((2,), 2 + 3j)
    torch.full((2,), -1.5 - 0.25j)
    torch.full((2,), complex(0, -0.0))
    torch.full((2,), 2**62, dtype=torch.int64)
    torch.clamp(x, min=0)
    torch.clamp(x, max=2.0)
    torch.arange(0, 1, 0.25)
    torch.linspace(0, 1, 5)
    torch.pow(2, x)
    torch.where(x > 0, x, 0.0)


@program
def keywords_and_strings() -> None:
    x = torch.randn(3, 4)
    torch.ones(3, dtype=torch.int64, device="cpu")
    x.to(torch.float64).to(device="cpu", dtype=torch.float16, copy=True)
    torch.empty((2, 3), memory_format=torch.contiguous_format)
    torch.zeros_like(x, layout=torch.strided, pin_memory=False)
    torch.div(x, x, rounding_mode="floor")
    F.gelu(x, approximate="tanh")
    torch.searchsorted(torch.arange(5.0), x, side="right")
    torch.norm(x, p="fro")
    torch.linalg.norm(x, ord="nuc")
    torch.randn(2, generator=torch.Generator().manual_seed(1))
    torch.std(x, dim=(0, 1), unbiased=False)
    torch.roll(x, shifts=(1, -1), dims=(0, 1))
    torch.histc(x, bins=4)
    torch.histogram(x, 3, range=(0.0, 1.0))
    F.interpolate(x[None, None], scale_factor=2.0, mode="bilinear")
    F.interpolate(x[None, None], size=(5, 6), mode="nearest")
    torch.nn.LSTM(4, 3, num_layers=2)(x)


@program
def kinds_of_tensor() -> None:
    x = torch.eye(3)
    sparse = x.to_sparse()
    torch.sparse.mm(sparse, x)
    compressed = x.to_sparse_csr()
    compressed @ x
    (sparse + sparse).coalesce().values()
    x.to_mkldnn().relu().to_dense()
    torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)]) * 2
    torch.tensor(3.0) * torch.tensor(2)
    torch.empty(0, 3).sum(0)
    torch.randn(2, dtype=torch.complex64).abs()
    torch.view_as_real(torch.ones(2, dtype=torch.complex128).conj().resolve_conj())
    torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).dequantize()
    x.to(torch.bfloat16) @ x.to(torch.bfloat16)
    x.bool().logical_and(x.bool()).any()
    torch.empty(2, 3, device="meta") + 1
    x.expand(2, 3, 3).transpose(0, 2).contiguous()
    torch.zeros(1, 2, 1, 1, 1, 1, 3).squeeze()
    torch._efficientzerotensor((2,)) + torch.ones(2)


@program
def views_and_mutation() -> None:
    x = torch.zeros(4, 4)
    x.view(2, 8).t().fill_(1)
    x[1:3].add_(1).mul_(2)
    x.as_strided((2, 2), (1, 2), 1).zero_()
    x.resize_(2, 2)
    y = torch.empty(0)
    y.set_(x)
    torch.add(x, x, out=torch.empty(2, 2))
    x.copy_(torch.ones(2, 2))
    x.detach().clone().requires_grad_()


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 3 * x**2


@program
def own_autograd_function() -> None:
    x = torch.ones(3, requires_grad=True)
    Cube.apply(Cube.apply(x)).sum().backward()


@program
def differentiate_twice() -> None:
    a = torch.randn(3, requires_grad=True)
    y = (a * a).sum()
    y.backward(retain_graph=True)
    y.backward()
    (gradient,) = torch.autograd.grad((a**3).sum(), a, create_graph=True)
    gradient.sum().backward()
    torch.func.vmap(torch.func.grad(lambda v: (v * v).sum()))(torch.ones(2, 3))


@program
def checkpointed_and_hooked() -> None:
    from torch.utils.checkpoint import checkpoint

    model = mlp()
    x = torch.randn(2, 4, requires_grad=True)
    x.register_hook(lambda gradient: gradient * 2)
    checkpoint(model, x, use_reentrant=False).sum().backward()
    checkpoint(model, x, use_reentrant=True).sum().backward()


@torch.jit.script
def scripted(x: torch.Tensor, n: int) -> torch.Tensor:
    for i in range(n):
        x = x * i + torch.ones(2)
    return x.relu()


@program
def torchscript() -> None:
    for _ in range(3):
        scripted(torch.ones(2), 3)


@program
def annotations() -> None:
    with record_function("outer"):
        with record_function("inner", "1, 2, 3"):
            torch.ones(5)
        with contextlib.suppress(ValueError), record_function("raises"):
            raise ValueError
        torch.zeros(2)

    @record_function("decorated")
    def decorated() -> torch.Tensor:
        return torch.ones(1)

    decorated()
    decorated()
    x = torch.ones(3, 4, 5)
    handle = torch.autograd._record_function_with_args_enter("args", 1, False, 2.5, [x, x], "hi", x)
    x + 1
    torch.autograd._record_function_with_args_exit(handle)


@program
def fast_annotations() -> None:
    fast = torch._C._profiler._RecordFunctionFast
    x, y = torch.ones(2, 3), torch.ones(4)
    with fast("bare"):
        torch.ones(1)
    with fast("tensors", [x, y]):
        pass
    with fast("tuple", (x, 1, "text", 2.5, None, [y])):
        pass
    with fast("keywords", [x], {"stream": 3, "grid": "1,2", "flag": True, "ratio": 0.5}):
        pass
    again = fast("again")
    for _ in range(2):
        with again:
            torch.ones(1)
    with contextlib.suppress(ValueError), fast("raises"):
        raise ValueError


@program
def long_and_mixed_lists() -> None:
    x = torch.ones(100)
    torch.split(x, [2] * 50)
    torch.split(x, [2] * 20 + [60])
    torch.split(x, [3] * 30 + [10])
    torch._foreach_mul([x, x, x], [2, 3.5, True])
    torch._foreach_pow([x, x], [1, 2])
    torch.nn.utils.rnn.pad_sequence([x, x[:3]])
    x.sum(())
    torch.ones((1,) * 20).sum(list(range(20)))
