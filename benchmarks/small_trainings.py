"""Small trainings with steps of 8 to 16 ms, by kind and by how much work a step does.

``more`` is 1, or how many times more rows of the batch, cells, layers or moves a step has.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

Loss = Callable[[], torch.Tensor]
Training = tuple[nn.Module, Loss]


def digits(more: float) -> Training:
    """A perceptron."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    rows = round(600 * more)

    def loss() -> torch.Tensor:
        return cross_entropy(net(torch.randn(rows, 1, 28, 28)), torch.randint(10, (rows,)))

    return net, loss


def images(more: float) -> Training:
    """A convolutional network."""
    net = nn.Sequential(
        *(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(16 * 11 * 11, 10)),
    )
    rows = round(120 * more)

    def loss() -> torch.Tensor:
        return cross_entropy(net(torch.randn(rows, 1, 28, 28)), torch.randint(10, (rows,)))

    return net, loss


class _Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(64, 100)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.embed(tokens)))


def language(more: float) -> Training:
    """A transformer of two layers."""
    net, rows = _Language(), round(40 * more)

    def loss() -> torch.Tensor:
        tokens = torch.randint(100, (rows, 33))
        return cross_entropy(net(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    return net, loss


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(32, 64), nn.Linear(64, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(x.shape[1], 64)
        for one in x:
            state = self.cell(one, state)
        return self.head(state)


def series(more: float) -> Training:
    """A recurrent network, cell by cell."""
    net, length = _Recurrent(), round(60 * more)
    return net, lambda: mse_loss(net(torch.randn(length, 16, 32)), torch.randn(16, 1))


def texts(more: float) -> Training:
    """Texts that Python splits and numbers, and a bag of embeddings."""
    net = nn.Sequential(nn.EmbeddingBag(1000, 64), nn.Linear(64, 2))
    words = [f"word{number}" for number in range(1000)]
    number_of = {word: number for number, word in enumerate(words)}
    draw, rows = random.Random(0), round(800 * more)
    lines = [" ".join(draw.choices(words, k=32)) for _ in range(5000)]

    def loss() -> torch.Tensor:
        chosen = [lines[draw.randrange(5000)] for _ in range(rows)]
        tokens = [[number_of[word.strip().lower()] for word in line.split()] for line in chosen]
        return cross_entropy(net(torch.tensor(tokens)), torch.randint(2, (rows,)))

    return net, loss


def policy(more: float) -> Training:
    """A policy for a pole on a cart, which plain Python moves."""
    net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    draw, moves = random.Random(0), round(200 * more)

    def loss() -> torch.Tensor:
        state, seen, chosen = [0.0] * 4, [], []
        for _ in range(moves):
            with torch.no_grad():
                left = torch.softmax(net(torch.tensor(state)), 0)[0].item()
            force = -1.0 if draw.random() < left else 1.0
            seen.append(list(state))
            chosen.append(int(force > 0))
            for _ in range(10):
                x, v, angle, spin = state
                state = [x + v / 500, v + force / 500, angle + spin / 500, spin + angle / 500]
                if abs(state[2]) > 0.2:
                    state = [0.0] * 4
        return cross_entropy(net(torch.tensor(seen)), torch.tensor(chosen))

    return net, loss


KINDS: dict[Callable[[float], Training], float] = {
    digits: 1.07,
    images: 1.05,
    language: 1.075,
    series: 1.055,
    texts: 1.07,
    policy: 1.06,
}
"""How much more work makes a step take 5 % more CPU time, measured."""


def train(kind: str, more: float, steps: int) -> None:
    """Run the training with one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net, loss = {one.__name__: one for one in KINDS}[kind](more)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
