"""Programs as people write them, each written before anybody had looked for what finds its fault.

Of four kinds findings were then written with these at hand, and of none a number was fitted.
"""

from __future__ import annotations

import random

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.advice.networks import batch, perceptron, repeated, trainer
from benchmarks.advice.program import Variants, planted


@planted("data-shuffled-again")
def loader_begun_for_every_batch() -> Variants:
    """``next(iter(loader))``, which shuffles all of the data set each time."""
    data = TensorDataset(*batch(60_000, 32))
    loader, step = DataLoader(data, batch_size=128, shuffle=True), trainer(perceptron(32, 1))

    def faulty() -> None:
        for _ in range(150):
            samples, target = next(iter(loader))  # fault
            step(samples, target)

    def fixed() -> None:
        batches = iter(loader)
        for _ in range(150):
            step(*next(batches))

    return faulty, fixed


@planted("partly-used-results")
def buffer_stacked_whole() -> Variants:
    """All states of a replay buffer made one tensor, of which a few are sampled."""
    states = [torch.randn(16) for _ in range(3_000)]
    step = trainer(perceptron(16, 1))

    def train(whole: bool) -> None:
        if whole:
            chosen = torch.stack(states)[torch.randint(3_000, (64,))]  # fault
        else:
            chosen = torch.stack(random.sample(states, 64))
        step(chosen, torch.randint(10, (64,)))
        states.append(states.pop(0).neg())

    return repeated(150, lambda: train(True), lambda: train(False))


@planted("partly-used-results")
def scores_of_every_position() -> Variants:
    """The scores of all words at all positions, where those of the last are wanted."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    head, texts = nn.Linear(64, 8_000), torch.randn(4, 64, 64)

    return repeated(
        30,
        torch.inference_mode()(lambda: head(layer(texts))[:, -1].argmax(-1)),  # fault
        torch.inference_mode()(lambda: head(layer(texts)[:, -1]).argmax(-1)),
    )


@planted("for-loop-indexing")
def means_class_by_class() -> Variants:
    """The mean of the features of every class, chosen by a mask for each."""
    classes, encoder = 64, nn.Linear(64, 128)
    inputs, labels = torch.randn(1_024, 64), torch.randint(64, (1_024,))

    def centers(features: Tensor, together: bool) -> Tensor:
        if together:
            sums = torch.zeros(classes, 128).index_add(0, labels, features)
            return sums / torch.bincount(labels, minlength=classes)[:, None]
        means = []
        for label in range(classes):
            means.append(features[labels == label].mean(0))  # fault
        return torch.stack(means)

    def train(together: bool) -> None:
        encoder.zero_grad()
        features = encoder(inputs)
        away = features - centers(features, together)[labels]
        away.square().sum(1).mean().backward()

    return repeated(40, lambda: train(False), lambda: train(True))


class _Head(nn.Module):
    """One head of attention, with layers of its own."""

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(width, size, bias=False) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(-2, -1) * 0.35
        return torch.softmax(scores, -1) @ self.value(x)


@planted("modules-one-by-one")
def heads_one_by_one() -> Variants:
    """Attention of sixteen heads, each a module."""
    heads, together = nn.ModuleList(_Head(128, 8) for _ in range(16)), nn.Linear(128, 384)
    x = torch.randn(8, 16, 128)

    def faulty() -> None:
        torch.cat([head(x) for head in heads], -1).sum().backward()  # fault

    def fixed() -> None:
        parts = together(x).view(8, 16, 3, 16, 8).permute(2, 0, 3, 1, 4)
        nn.functional.scaled_dot_product_attention(*parts).sum().backward()

    return repeated(25, faulty, fixed)


@planted("repeated-copies")
def every_second_feature() -> Variants:
    """Columns of a wider table, which every product copies because of their strides."""
    table, weights = torch.randn(2_048, 2_048), torch.randn(1_024, 8) * 0.01

    def train(columns: Tensor) -> Tensor:
        tuned = weights
        for _ in range(40):
            tuned = tuned + 0.001 * (columns @ tuned).mean()  # fault
        return tuned

    return lambda: train(table[:, ::2]), lambda: train(table[:, ::2].contiguous())


@planted("for-loop-indexing", "many-small-operators")
def jacobian_row_by_row() -> Variants:
    """One backward pass for each output."""
    network = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 64))

    def faulty() -> None:
        x = torch.randn(64, requires_grad=True)
        y, rows = network(x), []
        for i in range(64):
            rows.append(torch.autograd.grad(y[i], x, retain_graph=True)[0])  # fault
        torch.stack(rows).square().sum()

    return repeated(50, faulty, lambda: torch.func.jacrev(network)(torch.randn(64)).square().sum())


@planted("for-loop-indexing", "many-small-operators")
def batches_of_four() -> Variants:
    """Samples given to a small network four at a time."""
    network, samples = perceptron(64, 1), torch.randn(32_768, 64)

    def score(size: int) -> Tensor:
        scores = []
        with torch.inference_mode():
            for some in samples.split(size):  # fault
                scores.append(network(some))  # fault
        return torch.cat(scores)

    return lambda: score(4), lambda: score(1_024)


@planted("single-tensor-optimizer")
def parameters_one_by_one() -> Variants:
    """AdamW as it is by default, over many small parameters."""
    layers: list[nn.Module] = []
    for _ in range(30):
        layers += [nn.Linear(32, 32), nn.LayerNorm(32), nn.ReLU()]
    network, x = nn.Sequential(*layers), torch.randn(32, 32)

    def train(fused: bool) -> None:
        optimizer = torch.optim.AdamW(network.parameters(), fused=fused)
        for _ in range(40):
            optimizer.zero_grad()
            network(x).square().mean().backward()
            optimizer.step()  # fault

    return lambda: train(False), lambda: train(True)
