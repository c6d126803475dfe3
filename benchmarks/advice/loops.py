"""Programs that do in Python loops what one operation does."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.advice.networks import batch, perceptron, repeated
from benchmarks.advice.program import Variants, planted

LOOP = ("for-loop-indexing", "python-loop")
SMALL = "many-small-operators"


@planted(*LOOP)
def assign_elements() -> Variants:
    """``y[i, j] = f(x[i, j])``."""
    x = torch.rand(120, 120)

    def faulty() -> Tensor:
        y = torch.empty_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = x[i, j] * 2 + 1  # fault
        return y

    return faulty, lambda: x * 2 + 1


@planted(*LOOP)
def read_elements() -> Variants:
    """Nested reads into a sum."""
    x = torch.rand(200, 200)

    def faulty() -> Tensor:
        total = torch.zeros(())
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                total = total + x[i, j]  # fault
        return total

    return faulty, lambda: x.sum()


@planted(*LOOP)
def assign_vector() -> Variants:
    """``y[i] = f(v[i])`` in one dimension."""
    v = torch.rand(15_000)

    def faulty() -> Tensor:
        y = torch.empty_like(v)
        for i in range(len(v)):
            y[i] = v[i] * 2 + 1  # fault
        return y

    return faulty, lambda: v * 2 + 1


@planted(*LOOP, "implicit-synchronisation")
def item_of_each() -> Variants:
    """Every element read into Python."""
    v = torch.rand(40_000)

    def faulty() -> float:
        total = 0.0
        for i in range(len(v)):
            total += v[i].item()  # fault
        return total

    return faulty, lambda: v.sum().item()


@planted(*LOOP)
def rows_one_by_one() -> Variants:
    """Each row normalised by itself, then stacked."""
    x = torch.rand(20_000, 64)

    def faulty() -> Tensor:
        rows = []
        for row in x:
            rows.append(torch.softmax(row, 0))  # fault
        return torch.stack(rows)

    return faulty, lambda: torch.softmax(x, 1)


@planted(*LOOP)
def distances_pair_by_pair() -> Variants:
    """All distances between two sets of points, one at a time."""
    a, b = torch.rand(80, 16), torch.rand(80, 16)

    def faulty() -> Tensor:
        distances = torch.empty(len(a), len(b))
        for i in range(len(a)):
            for j in range(len(b)):
                distances[i, j] = (a[i] - b[j]).pow(2).sum()  # fault
        return distances

    return faulty, lambda: torch.cdist(a, b).pow(2)


@planted(*LOOP, SMALL)
def cell_by_cell() -> Variants:
    """A recurrent network of cells, a Python loop over time steps."""
    x = torch.randn(4, 200, 16)
    cell, layer = nn.GRUCell(16, 16), nn.GRU(16, 16, batch_first=True)

    def faulty() -> None:
        state = torch.zeros(4, 16)
        for t in range(x.shape[1]):
            state = cell(x[:, t], state)  # fault

    return repeated(10, faulty, lambda: layer(x), gradients=False)


@planted(*LOOP, SMALL)
def smoothing_over_time() -> Variants:
    """A running average, a step of Python for every moment."""
    x, decay = torch.rand(4_000, 8), 0.9 ** torch.arange(200.0).flip(0)

    def faulty() -> Tensor:
        state, states = torch.zeros(8), []
        for t in range(x.shape[0]):
            state = 0.9 * state + 0.1 * x[t]  # fault
            states.append(state)
        return torch.stack(states)

    def fixed() -> Tensor:
        padded = nn.functional.pad(x.t(), (199, 0)).unsqueeze(1)
        return 0.1 * nn.functional.conv1d(padded, decay.view(1, 1, -1)).squeeze(1).t()

    return faulty, fixed


@planted("single-sample-batches", *LOOP)
def samples_one_by_one() -> Variants:
    """A network applied to one sample at a time."""
    network, (data, _) = perceptron(128).eval(), batch(2_000, 128)

    @torch.inference_mode()
    def faulty() -> Tensor:
        results = []
        for i in range(len(data)):
            results.append(network(data[i : i + 1]))  # fault
        return torch.cat(results)

    @torch.inference_mode()
    def fixed() -> Tensor:
        return torch.cat([network(part) for part in data.split(500)])

    return faulty, fixed


@planted(*LOOP, "tensor-by-tensor", SMALL)
def norms_one_by_one() -> Variants:
    """Gradients clipped by hand, a loop over many small parameters."""
    weights = [torch.randn(16, 16, requires_grad=True) for _ in range(400)]
    for weight in weights:
        weight.grad = torch.randn_like(weight)

    def faulty() -> None:
        total = 0.0
        for weight in weights:
            total += weight.grad.norm().item() ** 2  # fault
        for weight in weights:
            weight.grad.mul_(min(1.0, 100.0 / total**0.5))  # fault

    def fixed() -> None:
        torch.nn.utils.clip_grad_norm_(weights, 100.0, foreach=True)

    return repeated(25, faulty, fixed)


@planted(SMALL, *LOOP)
def formula_by_hand() -> Variants:
    """GELU written out, on small tensors."""
    v = torch.randn(64, 64)
    return repeated(
        4_000,
        lambda: 0.5 * v * (1 + torch.tanh(0.797885 * (v + 0.044715 * v * v * v))),  # fault
        lambda: nn.functional.gelu(v, approximate="tanh"),
        gradients=False,
    )
