"""Programs written before anybody had looked at what their findings promise, and never fitted to.

Of kinds that the other modules do not have.
"""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from benchmarks.advice.networks import batch, in_every_step, perceptron, repeated
from benchmarks.advice.program import Variants, planted

LOOP = ("for-loop-indexing", "python-loop", "many-small-operators")


@planted(*LOOP)
def windows_by_slices() -> Variants:
    """A moving maximum, window by window, of parts that overlap."""
    x = torch.randn(8_000)

    def faulty() -> Tensor:
        found = []
        for i in range(len(x) - 63):
            found.append(x[i : i + 64].max())  # fault
        return torch.stack(found)

    return faulty, lambda: x.unfold(0, 64, 1).amax(1)


@planted(*LOOP)
def products_one_by_one() -> Variants:
    """A product for every matrix of a batch, each large enough to take longer than its call."""
    left, right = torch.randn(600, 48, 48), torch.randn(600, 48, 48)

    def faulty() -> Tensor:
        result = torch.empty(600, 48, 48)
        for i in range(600):
            result[i] = left[i] @ right[i]  # fault
        return result

    return repeated(16, faulty, lambda: torch.bmm(left, right))


@planted(*LOOP)
def overlaps_box_by_box() -> Variants:
    """How much each of many boxes overlaps with all others, a box at a time."""
    corner = torch.rand(1_500, 2)
    boxes = torch.cat([corner, corner + torch.rand(1_500, 2)], 1)

    def overlap(one: Tensor, others: Tensor) -> Tensor:
        low = torch.maximum(one[..., :2], others[..., :2])
        high = torch.minimum(one[..., 2:], others[..., 2:])
        return (high - low).clamp(min=0).prod(-1)

    def faulty() -> Tensor:
        rows = []
        for box in boxes:
            rows.append(overlap(box, boxes))  # fault
        return torch.stack(rows)

    def some_at_a_time() -> Tensor:
        """All with all makes 80 MB of results, and takes as long as the loop."""
        return torch.cat([overlap(some[:, None], boxes[None]) for some in boxes.split(300)])

    return faulty, some_at_a_time


@planted(*LOOP)
def bags_one_by_one() -> Variants:
    """The mean of the embeddings of each document's words, document by document."""
    table, words = torch.randn(5_000, 32), torch.randint(5_000, (6_000, 20))

    def faulty() -> Tensor:
        means = []
        for document in words:
            means.append(table[document].mean(0))  # fault
        return torch.stack(means)

    return faulty, lambda: nn.functional.embedding_bag(words, table, mode="mean")


@planted("tensor-by-tensor", "for-loop-indexing", "many-small-operators")
def gradient_norms_for_a_log() -> Variants:
    """The norm of every gradient after every step."""
    network, (data, target) = perceptron(64, 24), batch(32, 64)

    def train(together: bool) -> Tensor:
        network.zero_grad()
        nn.functional.cross_entropy(network(data), target).backward()
        gradients = [one.grad for one in network.parameters()]
        if together:
            return torch.stack(torch._foreach_norm(gradients)).max()
        norms = []
        for gradient in gradients:
            norms.append(gradient.norm())  # fault
        return torch.stack(norms).max()

    return repeated(60, lambda: train(False), lambda: train(True))


@planted("repeated-constants", "repeated-results")
def identity_again() -> Variants:
    """An identity matrix made for every system that is solved."""
    features, wanted = torch.randn(40, 300, 120), torch.randn(40, 300, 4)

    def solve(identity: Tensor | None) -> None:
        for x, y in zip(features, wanted, strict=True):
            small = torch.eye(1_200) * 0.1 if identity is None else identity  # fault
            torch.linalg.solve(x.T @ x + small[:120, :120], x.T @ y)

    return lambda: solve(None), lambda: solve(torch.eye(1_200) * 0.1)


@planted("repeated-results")
def decomposed_again() -> Variants:
    """The same design matrix decomposed for every regression on it."""
    design, wanted = torch.randn(600, 80), torch.randn(300, 600, 1)

    def run(again: bool) -> Tensor:
        total, known = torch.zeros(80, 1), torch.linalg.qr(design)
        for y in wanted:
            q, r = torch.linalg.qr(design) if again else known  # fault
            total = total + torch.linalg.solve_triangular(r, q.T @ y, upper=True)
        return total

    return lambda: run(True), lambda: run(False)


@planted("single-tensor-optimizer")
def momentum_parameter_by_parameter() -> Variants:
    """SGD with momentum in a loop over the weights of a narrow, deep network."""
    (data, target), one, other = batch(64, 48), perceptron(48, 50), perceptron(48, 50)
    slow = torch.optim.SGD(one.parameters(), lr=0.01, momentum=0.9, foreach=False)
    fast = torch.optim.SGD(other.parameters(), lr=0.01, momentum=0.9, fused=True)

    def train(network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(data), target).backward()
        optimizer.step()  # fault

    return repeated(50, lambda: train(one, slow), lambda: train(other, fast))


@planted("time-outside-torch")
def words_counted_in_python() -> Variants:
    """Text taken apart by a regular expression in every step."""
    word = re.compile(r"\w+")
    text = " ".join(f"word{i * 7 % 311}" for i in range(6_000))

    def count() -> int:
        seen: dict[str, int] = {}
        for one in word.findall(text.lower()):  # fault
            seen[one] = seen.get(one, 0) + 1  # fault
        return len(seen)

    return in_every_step(60, count)  # fault


@planted("growing-concatenation")
def history_of_keys() -> Variants:
    """Keys and values of attention appended word by word, each time a copy of all so far."""
    layer, words = nn.Linear(64, 192), torch.randn(700, 8, 1, 64)

    def attend(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(query, keys, values)

    @torch.inference_mode()
    def faulty() -> None:
        keys = values = torch.empty(8, 0, 64)
        for word in words:
            query, key, value = layer(word).chunk(3, -1)
            keys = torch.cat([keys, key], 1)  # fault
            values = torch.cat([values, value], 1)  # fault
            attend(query, keys, values)

    @torch.inference_mode()
    def fixed() -> None:
        keys, values = torch.empty(8, 700, 64), torch.empty(8, 700, 64)
        for at, word in enumerate(words):
            query, keys[:, at : at + 1], values[:, at : at + 1] = layer(word).chunk(3, -1)
            attend(query, keys[:, : at + 1], values[:, : at + 1])

    return faulty, fixed


@planted("gradients-in-inference")
def validation_with_gradients() -> Variants:
    """A recurrent network of cells validated with its graph."""
    cell, head, data = nn.GRUCell(48, 48), nn.Linear(48, 10), torch.randn(40, 32, 48)

    def validate() -> None:
        state = torch.zeros(32, 48)
        for one in data:
            state = cell(one, state)  # fault
        head(state)  # fault

    return repeated(25, validate, torch.inference_mode()(validate))


@planted("recomputation")
def convolutions_recomputed() -> Variants:
    """Blocks of convolutions whose activations would have fitted, computed again."""
    blocks = nn.ModuleList(
        nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.GELU()) for _ in range(4)
    )
    images = torch.randn(8, 16, 32, 32)

    def train(save: bool) -> None:
        out = images
        for block in blocks:
            out = block(out) if save else checkpoint(block, out, use_reentrant=False)  # fault
        out.square().mean().backward()

    return repeated(15, lambda: train(False), lambda: train(True))


@planted("anomaly-detection")
def anomaly_mode_of_small_steps() -> Variants:
    """Anomaly detection around a recurrent network of small cells."""
    cell, head = nn.RNNCell(16, 32), nn.Linear(32, 10)
    data, target = torch.randn(40, 16, 16), torch.randint(10, (16,))

    def train() -> None:
        for _ in range(12):
            state = torch.zeros(16, 32)
            for one in data:
                state = cell(one, state)
            nn.functional.cross_entropy(head(state), target).backward()

    def faulty() -> None:
        with torch.autograd.detect_anomaly(check_nan=True):  # fault
            train()

    return faulty, train


@planted("attention-by-hand")
def attention_of_long_sequences() -> Variants:
    """Attention written out with a mask, over few heads of a long sequence."""
    query, key, value = (torch.randn(1, 2, 1_536, 64) for _ in range(3))
    hidden = torch.ones(1_536, 1_536, dtype=torch.bool).triu(1)

    def faulty() -> None:
        scores = (query @ key.transpose(-2, -1)) * 64**-0.5  # fault
        torch.softmax(scores.masked_fill(hidden, float("-inf")), -1) @ value  # fault

    def fixed() -> None:
        nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)

    return repeated(8, faulty, fixed, gradients=False)
