"""Programs that make tensors again, copy them, or make them larger than they need to be."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.advice.networks import batch, perceptron, repeated, trainer
from benchmarks.advice.program import Variants, planted

REPEATED, CONSTANT = ("repeated-copies",), ("repeated-constants",)


@planted(*REPEATED)
def contiguous_again() -> Variants:
    """The same transposed tensor made contiguous in every round."""
    transposed, small = torch.randn(1024, 1024).t(), torch.randn(8, 1024)
    whole = transposed.contiguous()
    return repeated(
        100,
        lambda: small @ transposed.contiguous(),  # fault
        lambda: small @ whole,
    )


@planted(*REPEATED)
def half_again() -> Variants:
    """Weights converted to bfloat16 for every product."""
    weight, x = torch.randn(1024, 1024), torch.randn(4, 1024, dtype=torch.bfloat16)
    half = weight.to(torch.bfloat16)
    return repeated(
        200,
        lambda: x @ weight.to(torch.bfloat16),  # fault
        lambda: x @ half,
        gradients=False,
    )


@planted(*REPEATED)
def cloned_again() -> Variants:
    """A table cloned for every step that only reads it."""
    table, index = torch.randn(4_000, 128), torch.randint(4_000, (128,))
    step, target = trainer(perceptron()), batch()[1]
    return repeated(
        60,
        lambda: step(table.clone()[index], target),  # fault
        lambda: step(table[index], target),
    )


@planted(*CONSTANT)
def positions_again() -> Variants:
    """Sines and cosines of positions computed in every step."""
    step, (data, target) = trainer(perceptron()), batch()

    def positions(length: int, width: int) -> Tensor:
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))  # fault
        angle = torch.arange(length).unsqueeze(1) * rate  # fault
        return torch.cat([torch.sin(angle), torch.cos(angle)], 1)  # fault

    table = positions(2_048, 128)
    return repeated(
        40,
        lambda: step(data + positions(2_048, 128)[:128], target),  # fault
        lambda: step(data + table[:128], target),
    )


@planted(*CONSTANT)
def mask_again() -> Variants:
    """A causal mask made in every call of attention."""
    query = torch.randn(1, 2, 1024, 32)
    mask = torch.tril(torch.ones(1024, 1024)) == 1

    def masked(mask: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(query, query, query, attn_mask=mask)

    return repeated(
        20,
        lambda: masked(torch.tril(torch.ones(1024, 1024)) == 1),  # fault
        lambda: masked(mask),
        gradients=False,
    )


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
    table, target = np.random.default_rng(0).random((128, 256)), batch()[1]
    step, fast = trainer(perceptron(256).double()), trainer(perceptron(256))
    return repeated(
        20,
        lambda: step(torch.from_numpy(table), target),  # fault
        lambda: fast(torch.from_numpy(table).float(), target),
    )


@planted("double-precision")
def double_by_promotion() -> Variants:
    """One factor of float64 that turns all that follows into it."""
    x = torch.randn(512, 1024)
    weights = torch.linspace(0, 1, 1024, dtype=torch.float64)
    narrow = weights.float()

    def formula(factor: Tensor) -> Tensor:
        scaled = x * factor  # fault
        return torch.softmax(torch.tanh(scaled) * scaled + scaled.sigmoid(), 1)

    return repeated(20, lambda: formula(weights), lambda: formula(narrow))
