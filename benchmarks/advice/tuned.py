"""Programs without a fault: no finding about them may be of high or medium severity."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.advice.networks import always, batch, perceptron, trainer
from benchmarks.advice.program import Body, tuned


@tuned
def training_a_perceptron() -> Body:
    """Fused Adam, batches of 512."""
    step, (data, target) = trainer(perceptron(512)), batch(512, 512)

    return always(40, lambda: step(data, target))


@tuned
def training_convolutions() -> Body:
    """Without biases before normalisation."""
    network = nn.Sequential(
        nn.Conv2d(3, 32, 3, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    step, data, target = trainer(network), torch.randn(32, 3, 40, 40), torch.randint(10, (32,))

    return always(12, lambda: step(data, target))


@tuned
def training_a_transformer() -> Body:
    """Attention by one call."""
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
    network = nn.Sequential(layer, nn.Flatten(), nn.Linear(256 * 64, 10))
    step, data, target = trainer(network), torch.randn(16, 64, 256), torch.randint(10, (16,))

    return always(10, lambda: step(data, target))


@tuned
def training_a_recurrent_layer() -> Body:
    """All time steps in one call."""
    layer, head = nn.GRU(64, 128, batch_first=True), nn.Linear(128, 10)
    optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.01, fused=True)
    data, target = torch.randn(64, 50, 64), torch.randint(10, (64,))

    def body() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(head(layer(data)[1][0]), target).backward()
        optimizer.step()

    return always(12, body)


@tuned
def inference_in_batches() -> Body:
    """Without gradients."""
    network, (data, _) = perceptron(512).eval(), batch(4_096, 512)

    @torch.inference_mode()
    def body() -> None:
        for _ in range(8):
            for part in data.split(1_024):
                network(part)

    return body


@tuned
def products_of_matrices() -> Body:
    """Nothing but matrix products."""
    a, b = torch.randn(768, 768), torch.randn(768, 768)

    def body() -> Tensor:
        result = a
        for _ in range(40):
            result = (result @ b) * 0.03
        return result

    return body


@tuned
def elementwise_in_place() -> Body:
    """Large tensors, written where they are."""
    x, y = torch.rand(4_000_000), torch.rand(4_000_000)

    return always(40, lambda: x.mul_(0.9).add_(y, alpha=0.1))


@tuned
def solving_systems() -> Body:
    """Batched linear algebra."""
    root = torch.randn(200, 48, 48)
    matrices, sides = root @ root.mT + 48 * torch.eye(48), torch.randn(200, 48, 1)

    return always(30, lambda: torch.cholesky_solve(sides, torch.linalg.cholesky(matrices)))


@tuned
def embeddings() -> Body:
    """A bag of words, sparse in what it touches."""
    table, head = nn.EmbeddingBag(20_000, 128, mode="mean"), nn.Linear(128, 10)
    network = nn.Sequential(table, head)
    step, words = trainer(network), torch.randint(20_000, (256, 200))
    target = torch.randint(10, (256,))
    return always(15, lambda: step(words, target))


@tuned
def convolutions_of_images() -> Body:
    """Inference, channels last."""
    network = nn.Sequential(
        nn.Conv2d(3, 64, 7, stride=2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(),
        nn.Conv2d(64, 128, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
    ).to(memory_format=torch.channels_last).eval()  # fmt: skip
    images = torch.randn(8, 3, 128, 128).contiguous(memory_format=torch.channels_last)

    return torch.inference_mode()(always(10, lambda: network(images)))


@tuned
def training_from_a_loader() -> Body:
    """Whole batches from memory, metrics read at the end."""
    network, (data, target) = perceptron(256), batch(8_192, 256)
    step = trainer(network)

    def body() -> float:
        losses = []
        for _ in range(2):
            order = torch.randperm(len(data))
            for rows in order.split(512):
                losses.append(step(data[rows], target[rows]).detach())
        return float(torch.stack(losses).mean())

    return body


@tuned
def large_gradients_kept() -> Body:
    """Gradients filled with zeros: to allocate them anew costs more than to add to them."""
    network, (data, target) = perceptron(1024, 4), batch(8, 1024)

    def body() -> None:
        network.zero_grad(set_to_none=False)
        nn.functional.cross_entropy(network(data), target).backward()

    return always(15, body)


@tuned
def batches_from_numpy() -> Body:
    """Every batch an array of its own, converted to what the network takes."""
    network, target = perceptron(256), torch.randint(10, (256,))
    step, generator = trainer(network), np.random.default_rng(0)
    table = generator.standard_normal((8_192, 256))

    def body() -> None:
        for first in range(0, 8_192, 256):
            step(torch.from_numpy(table[first : first + 256].copy()).float(), target)

    return body


@tuned
def decoding_with_a_kept_cache() -> Body:
    """Words made one after the other for many texts, with keys and values written in place."""
    count, width, heads, length, depth = 48, 512, 8, 40, 2
    table = nn.Embedding(2_000, width)
    layers = [(nn.Linear(width, 3 * width), nn.Linear(width, width)) for _ in range(depth)]
    wide = [(nn.Linear(width, 4 * width), nn.Linear(4 * width, width)) for _ in range(depth)]
    cache = torch.zeros(depth, 2, count, heads, length, width // heads)

    def attend(at: int, layer: int, state: Tensor) -> Tensor:
        inner, outer = layers[layer]
        query, key, value = inner(state).view(count, 3, heads, 1, -1).unbind(1)
        cache[layer, 0, :, :, at : at + 1] = key
        cache[layer, 1, :, :, at : at + 1] = value
        known = cache[layer, :, :, :, : at + 1]
        got = nn.functional.scaled_dot_product_attention(query, known[0], known[1])
        return outer(got.reshape(count, width))

    @torch.inference_mode()
    def body() -> Tensor:
        words = torch.empty(length, count, dtype=torch.long)
        now = torch.zeros(count, dtype=torch.long)
        for at in range(length):
            state = table(now)
            for layer, (up, down) in enumerate(wide):
                state = state + attend(at, layer, state)
                state = state + down(nn.functional.gelu(up(state)))
            now = (state @ table.weight.T).argmax(1)
            words[at] = now
        return words

    return body
