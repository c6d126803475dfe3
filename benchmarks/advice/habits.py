"""Programs with a habit that costs time: each does the right thing, in an expensive way."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.advice.networks import batch, in_every_step, perceptron, repeated, trainer
from benchmarks.advice.program import Variants, planted


@planted("dense-embedding-gradients")
def table_with_dense_gradients() -> Variants:
    """A large embedding of which a step touches a few rows, with gradients for all of them."""
    words, target = torch.randint(60_000, (64, 12)), torch.randint(10, (64,))

    def train(sparse: bool) -> None:
        table = nn.EmbeddingBag(60_000, 64, sparse=sparse)
        head = nn.Linear(64, 10)
        optimizer = torch.optim.SGD([*table.parameters(), *head.parameters()], lr=0.1)
        for _ in range(30):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(head(table(words)), target)  # fault
            loss.backward()
            optimizer.step()

    return lambda: train(False), lambda: train(True)


@planted("one-hot-product")
def product_with_one_hot() -> Variants:
    """Rows of a table looked up by a product with ones and zeros."""
    tokens, weight = torch.randint(5_000, (256,)), torch.randn(5_000, 64)
    return repeated(
        25,
        lambda: nn.functional.one_hot(tokens, 5_000).float() @ weight,  # fault
        lambda: nn.functional.embedding(tokens, weight),
    )


@planted("repeated-results")
def inverse_again() -> Variants:
    """The inverse of a matrix that does not change, in every round."""
    root = torch.randn(300, 300)
    matrix = root @ root.T + torch.eye(300)

    def run(again: bool) -> Tensor:
        state, inverse = torch.zeros(300, 8), torch.linalg.inv(matrix)
        for _ in range(40):
            now = torch.linalg.inv(matrix) if again else inverse  # fault
            state = torch.tanh(now @ (state + 1))
        return state

    return lambda: run(True), lambda: run(False)


@planted("repeated-results")
def frozen_features_again() -> Variants:
    """A frozen network in front of a head, run on the same images in every epoch."""
    body, step = perceptron(256, 4).requires_grad_(False).eval(), trainer(perceptron(10, 1))
    data, target = batch(2_048, 256)
    with torch.no_grad():
        features = body(data)
    return repeated(
        12,
        lambda: step(body(data), target),  # fault
        lambda: step(features, target),
    )


@planted("attention-by-hand")
def attention_by_hand() -> Variants:
    """Scores, softmax and values as three operations, each the size of the sequence squared."""
    query, key, value = (torch.randn(2, 4, 768, 32) for _ in range(3))

    def faulty() -> None:
        scores = query @ key.transpose(-2, -1) / 32**0.5  # fault
        torch.softmax(scores, dim=-1) @ value  # fault

    def fixed() -> None:
        nn.functional.scaled_dot_product_attention(query, key, value)

    return repeated(12, faulty, fixed, gradients=False)


@planted("modules-made-again")
def layer_made_in_forward() -> Variants:
    """A layer made, and filled with random weights, in every forward pass."""

    class Mixing(nn.Module):
        def __init__(self, has_layer: bool) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(64, 256), nn.Linear(256, 10)
            self.mix = nn.Linear(256, 256) if has_layer else None

        def forward(self, x: Tensor) -> Tensor:
            mix = self.mix or nn.Linear(256, 256)  # fault
            return self.last(mix(self.first(x)).relu())

    making, having = trainer(Mixing(False)), trainer(Mixing(True))
    data, target = batch(64, 64)
    return repeated(80, lambda: making(data, target), lambda: having(data, target))


@planted("tensor-by-tensor")
def weights_averaged_one_by_one() -> Variants:
    """The mean of the weights of several networks, tensor by tensor."""
    networks = [perceptron(32, 40) for _ in range(12)]
    states = [list(network.state_dict().values()) for network in networks]
    total = [torch.zeros_like(one) for one in states[0]]

    def faulty() -> None:
        for state in states:
            for mean, now in zip(total, state, strict=True):
                mean.add_(now, alpha=1 / len(states))  # fault

    def fixed() -> None:
        for state in states:
            torch._foreach_add_(total, state, alpha=1 / len(states))

    return repeated(20, faulty, fixed)


@planted("graph-that-grows", "memory-that-grows")
def state_never_detached() -> Variants:
    """A state handed on with its graph: every backward pass goes back to the start."""
    cell, head = nn.GRUCell(32, 64), nn.Linear(64, 10)
    x, target = torch.randn(60, 16, 32), torch.randint(10, (16,))

    def train(detach: bool) -> None:
        state = torch.zeros(16, 64)
        for one in x:
            state = cell(one, state.detach() if detach else state)
            loss = nn.functional.cross_entropy(head(state), target)
            loss.backward(retain_graph=not detach)  # fault

    return lambda: train(False), lambda: train(True)


@planted("graph-of-gradients")
def create_graph_left_on() -> Variants:
    """A backward pass that can itself be differentiated, and never is."""
    network, (data, target) = perceptron(64, 6), batch(64, 64)
    parameters = list(network.parameters())

    def train(create_graph: bool) -> None:
        loss = nn.functional.cross_entropy(network(data), target)
        gradients = torch.autograd.grad(loss, parameters, create_graph=create_graph)  # fault
        with torch.no_grad():
            torch._foreach_add_(parameters, gradients, alpha=-0.01)

    return repeated(60, lambda: train(True), lambda: train(False))


@planted("workers-started-again")
def workers_of_every_epoch() -> Variants:
    """Worker processes started for each of many short epochs."""
    step, data = trainer(perceptron(64, 2)), TensorDataset(*batch(512, 64))
    restarted = DataLoader(data, batch_size=128, num_workers=2)
    kept = DataLoader(data, batch_size=128, num_workers=2, persistent_workers=True)

    def train(loader: DataLoader[tuple[Tensor, ...]]) -> None:
        for part, wanted in loader:  # fault
            step(part, wanted)

    return repeated(8, lambda: train(restarted), lambda: train(kept))


@planted("recomputation")
def recomputed_without_need() -> Variants:
    """Activations thrown away and computed again, of a network that is small."""
    network, (data, target) = perceptron(256, 6), batch(256, 256)

    def train(save: bool) -> None:
        network.zero_grad()
        out = network(data) if save else checkpoint(network, data, use_reentrant=False)  # fault
        nn.functional.cross_entropy(out, target).backward()

    return repeated(30, lambda: train(False), lambda: train(True))


@planted("summed-broadcast")
def distances_by_broadcasting() -> Variants:
    """All differences of two sets of points at once, to add up their squares."""
    a, b = torch.randn(500, 64), torch.randn(600, 64)
    return repeated(
        6,
        lambda: (a[:, None] - b[None]).pow(2).sum(-1).min(1),  # fault
        lambda: torch.cdist(a, b).pow(2).min(1),
    )


@planted("time-outside-torch")
def weights_in_histograms() -> Variants:
    """Histograms of all weights after every step, for a log that is not read step by step."""
    network = perceptron(256)

    def look() -> None:
        for weight in network.parameters():
            np.histogram(weight.detach().numpy(), bins=64)  # fault

    return in_every_step(25, look, network, 16)
