"""Programs that make tensors again, copy them, or make them larger than they need to be."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.advice.networks import batch, perceptron, trainer
from benchmarks.advice.program import Variants, planted

REPEATED = ("repeated-copies",)
CONSTANT = ("repeated-constants",)


@planted(*REPEATED)
def contiguous_again() -> Variants:
    """The same transposed tensor made contiguous in every round."""
    transposed, small = torch.randn(1024, 1024).t(), torch.randn(8, 1024)

    def faulty() -> None:
        for _ in range(100):
            small @ transposed.contiguous()  # fault

    def fixed() -> None:
        whole = transposed.contiguous()
        for _ in range(100):
            small @ whole

    return faulty, fixed


@planted(*REPEATED)
def half_again() -> Variants:
    """Weights converted to bfloat16 for every product."""
    weight, x = torch.randn(1024, 1024), torch.randn(4, 1024, dtype=torch.bfloat16)

    def faulty() -> None:
        with torch.no_grad():
            for _ in range(200):
                x @ weight.to(torch.bfloat16)  # fault

    def fixed() -> None:
        with torch.no_grad():
            half = weight.to(torch.bfloat16)
            for _ in range(200):
                x @ half

    return faulty, fixed


@planted(*REPEATED)
def cloned_again() -> Variants:
    """A table cloned for every step that only reads it."""
    table, index = torch.randn(4_000, 128), torch.randint(4_000, (128,))
    step, target = trainer(perceptron()), batch()[1]

    def faulty() -> None:
        for _ in range(60):
            copied = table.clone()  # fault
            step(copied[index], target)

    def fixed() -> None:
        for _ in range(60):
            step(table[index], target)

    return faulty, fixed


@planted(*CONSTANT)
def positions_again() -> Variants:
    """Sines and cosines of positions computed in every step."""
    step, (data, target) = trainer(perceptron()), batch()

    def positions(length: int, width: int) -> Tensor:
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))  # fault
        angle = torch.arange(length).unsqueeze(1) * rate  # fault
        return torch.cat([torch.sin(angle), torch.cos(angle)], 1)  # fault

    def faulty() -> None:
        for _ in range(40):
            step(data + positions(2_048, 128)[:128], target)  # fault

    def fixed() -> None:
        table = positions(2_048, 128)
        for _ in range(40):
            step(data + table[:128], target)

    return faulty, fixed


@planted(*CONSTANT)
def mask_again() -> Variants:
    """A causal mask made in every call of attention."""
    query = torch.randn(1, 2, 1024, 32)

    def masked(mask: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(query, query, query, attn_mask=mask)

    def faulty() -> None:
        with torch.no_grad():
            for _ in range(20):
                masked(torch.tril(torch.ones(1024, 1024)) == 1)  # fault

    def fixed() -> None:
        mask = torch.tril(torch.ones(1024, 1024)) == 1
        with torch.no_grad():
            for _ in range(20):
                masked(mask)

    return faulty, fixed


@planted("growing-concatenation")
def cat_that_grows() -> Variants:
    """Results appended by torch.cat, which copies all there is each time."""
    network, (data, _) = perceptron(64, 1).eval(), batch(64, 64)

    @torch.inference_mode()
    def faulty() -> Tensor:
        everything = torch.empty(0, 10)
        for _ in range(1_200):
            everything = torch.cat([everything, network(data)])  # fault
        return everything

    @torch.inference_mode()
    def fixed() -> Tensor:
        return torch.cat([network(data) for _ in range(1_200)])

    return faulty, fixed


@planted("double-precision")
def double_by_numpy() -> Variants:
    """NumPy's float64 taken over, and the network made to fit."""
    table = np.random.default_rng(0).random((128, 256))
    wide, narrow = perceptron(256).double(), perceptron(256)
    step, fast = trainer(wide), trainer(narrow)
    target = batch()[1]

    def faulty() -> None:
        for _ in range(20):
            step(torch.from_numpy(table), target)  # fault

    def fixed() -> None:
        for _ in range(20):
            fast(torch.from_numpy(table).float(), target)

    return faulty, fixed


@planted("double-precision")
def double_by_promotion() -> Variants:
    """One factor of float64 that turns all that follows into it."""
    x = torch.randn(512, 1024)
    weights = torch.linspace(0, 1, 1024, dtype=torch.float64)
    narrow = weights.float()

    def formula(factor: Tensor) -> Tensor:
        scaled = x * factor  # fault
        return torch.softmax(torch.tanh(scaled) * scaled + scaled.sigmoid(), 1)

    def faulty() -> None:
        for _ in range(20):
            formula(weights)

    def fixed() -> None:
        for _ in range(20):
            formula(narrow)

    return faulty, fixed
