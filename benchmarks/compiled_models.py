"""Of the time in compiled code, the share whose line of the program is known, on twenty models.

``python -m benchmarks.compiled_models`` compiles each, records a few training steps, and prints the
shares; ``--models 3`` takes the first three alone. Compiling takes most of the time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import opscope

_STEPS = 5


class Perceptron(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64), nn.Tanh())


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = x + F.silu(layer(x))
        return x


class Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x: Any) -> Any:
        x = F.relu(self.norm(self.first(x)))
        return F.max_pool2d(F.relu(self.second(x)), 2)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(x).chunk(3, -1)
        weights = (q @ k.transpose(-1, -2) / 8).softmax(-1)
        return self.out(weights @ v)


class FusedAttention(Attention):
    def forward(self, x: Any) -> Any:
        heads = self.qkv(x).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*heads)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.1)

    def forward(self, x: Any) -> Any:
        return self.layer(x)


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(64, 96), nn.Linear(64, 96), nn.Linear(96, 64)

    def forward(self, x: Any) -> Any:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class RootMeanSquare(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(64))

    def forward(self, x: Any) -> Any:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Embedded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(100, 32), nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        return F.log_softmax(self.out(self.table(x).mean(1)), -1)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(16, 16)

    def forward(self, x: Any) -> Any:
        state = torch.zeros(x.shape[0], 16)
        for step in x.unbind(1):
            state = self.cell(step, state)
        return state


class Variational(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(64, 16), nn.Linear(8, 64)

    def forward(self, x: Any) -> Any:
        mean, scale = self.encode(x).chunk(2, -1)
        drawn = mean + torch.randn_like(mean) * scale.exp()
        return F.mse_loss(self.decode(drawn), x)


class Contrastive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(64, 32), nn.Linear(64, 32)

    def forward(self, x: Any) -> Any:
        a, b = F.normalize(self.one(x), dim=-1), F.normalize(self.other(x), dim=-1)
        return F.cross_entropy(a @ b.T * 10, torch.arange(x.shape[0]))


class Separable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.depth, self.point = nn.Conv2d(3, 3, 3, groups=3), nn.Conv2d(3, 16, 1)

    def forward(self, x: Any) -> Any:
        return F.adaptive_avg_pool2d(F.hardswish(self.point(self.depth(x))), 1).flatten(1)


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.route = nn.Linear(64, 4)
        self.experts = nn.Parameter(torch.randn(4, 64, 64) / 8)

    def forward(self, x: Any) -> Any:
        weights = self.route(x).softmax(-1)
        return torch.einsum("bd,edf,be->bf", x, self.experts, weights)


class Graph(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.register_buffer("source", torch.arange(32) % 16)

    def forward(self, x: Any) -> Any:
        messages = self.linear(x)[self.source]
        return torch.zeros_like(x).index_add(0, self.source, messages).relu()


class Interpolated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 1)

    def forward(self, x: Any) -> Any:
        up = F.interpolate(self.convolution(x), scale_factor=2, mode="bilinear")
        return F.avg_pool2d(up.sigmoid(), 2)


class Sorted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x: Any) -> Any:
        values, _ = self.linear(x).sort(-1)
        return values.cumsum(-1) / torch.arange(1, 65)


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.second(F.gelu(self.first(x))).float()


class Fourier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(33))

    def forward(self, x: Any) -> Any:
        return torch.fft.irfft(torch.fft.rfft(x) * self.weight, n=64)


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(64, 64), nn.LayerNorm(64)

    def forward(self, x: Any) -> Any:
        for _ in range(3):
            x = self.norm(x + F.dropout(self.linear(x), 0.1))
        return x


def _rows() -> Any:
    return torch.randn(16, 64)


def _pictures() -> Any:
    return torch.randn(4, 3, 16, 16)


def _sequences() -> Any:
    return torch.randn(4, 8, 64)


MODELS: tuple[tuple[type[nn.Module], Callable[[], Any]], ...] = (
    (Perceptron, _rows),
    (Residual, _rows),
    (Convolution, _pictures),
    (Attention, _sequences),
    (FusedAttention, _sequences),
    (Transformer, _sequences),
    (Gated, _rows),
    (RootMeanSquare, _rows),
    (Embedded, lambda: torch.randint(0, 100, (4, 8))),
    (Recurrent, lambda: torch.randn(4, 5, 16)),
    (Variational, _rows),
    (Contrastive, _rows),
    (Separable, _pictures),
    (Experts, _rows),
    (Graph, _rows),
    (Interpolated, _pictures),
    (Sorted, _rows),
    (Mixed, _rows),
    (Fourier, _rows),
    (Shared, _rows),
)


def recorded_model(kind: type[nn.Module], make_input: Callable[[], Any]) -> opscope.Trace:
    """A few training steps of one model, compiled before the recording."""
    torch.manual_seed(0)
    model, given = torch.compile(kind()), make_input()
    model(given).sum().backward()
    with opscope.profile() as prof:
        for _ in range(_STEPS):
            model(given).sum().backward()
    return prof.trace


def main() -> None:
    """Print the share of every model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=len(MODELS))
    total = known = 0
    for kind, make_input in MODELS[: parser.parse_args().models]:
        found = recorded_model(kind, make_input).compiled("all")
        time_ns = sum(call.time_ns for call in found.calls)
        total, known = total + time_ns, known + round(found.coverage * time_ns)
        unknown = ", ".join(call.callee for call in found.unknown)
        print(
            f"{kind.__name__:16} {found.coverage:7.2%} of {time_ns / 1e6:8.2f} ms in kernels and "
            f"operators; {found.own_ns / max(found.graphs_ns, 1):6.2%} of {found.graphs} graphs is "
            f"generated code's own, {found.coverage_of_graphs:.2%} of them has a line"
            f"{'; no line: ' + unknown if unknown else ''}",
            flush=True,
        )
    print(f"{'all':16} {known / max(total, 1):7.2%}")


if __name__ == "__main__":
    main()
