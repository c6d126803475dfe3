"""Programs on a GPU: faults that only exist there, and some that cost something else there.

Where torch sees none they run on the CPU, which tries out that they run and nothing else.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.advice.networks import chained, perceptron, repeated
from benchmarks.advice.program import Body, Variants, planted, tuned

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def _randn(*sizes: int, **options: Any) -> Tensor:
    return torch.randn(*sizes, device=DEVICE, **options)


@planted("implicit-synchronisation")
def loss_read_every_step() -> Variants:
    """What the device does takes longer than launching it, and then waits for the next launch."""
    network = perceptron(4096, 8).to(DEVICE, torch.bfloat16)
    optimizer = torch.optim.SGD(network.parameters(), 1e-3, fused=True)
    data = _randn(2048, 4096, dtype=torch.bfloat16)

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = network(data).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def faulty() -> float:
        total = 0.0
        for _ in range(60):
            total += step().item()  # fault
        return total

    def fixed() -> float:
        total = torch.zeros((), device=DEVICE)
        for _ in range(60):
            total += step()
        return total.item()

    return faulty, fixed


@planted("implicit-synchronisation")
def rows_chosen_by_mask() -> Variants:
    """A mask as an index: the host waits for how many rows there are."""
    values, weights = _randn(4096, 4096).bfloat16(), _randn(4096, 4096).bfloat16() / 64

    def run(by_mask: bool) -> Tensor:
        total, product = torch.zeros((), device=DEVICE), values
        for _ in range(200):
            product = product @ weights
            if by_mask:
                total += product[product > 0].sum()  # fault
            else:
                total += torch.where(product > 0, product, 0).sum()
        return total

    return lambda: run(True), lambda: run(False)


@planted("implicit-synchronisation", "extra-device-copy", "repeated-copies")
def batches_from_pageable_memory() -> Variants:
    """The host waits for each copy, as the driver first copies it to memory of its own."""
    network = perceptron(2048, 24).to(DEVICE, torch.bfloat16)
    batches = [torch.randn(2048, 2048, dtype=torch.bfloat16) for _ in range(40)]
    pinned = [one.pin_memory() for one in batches] if DEVICE == "cuda" else batches

    @torch.no_grad()
    def run(some: list[Tensor], non_blocking: bool) -> Tensor:
        total = torch.zeros((), device=DEVICE)
        for batch in some:
            total += network(batch.to(DEVICE, non_blocking=non_blocking)).sum()  # fault
        return total

    return lambda: run(batches, False), lambda: run(pinned, True)


@planted("extra-device-copy")
def noise_made_on_the_host() -> Variants:
    """Random numbers of the CPU, copied over."""
    return chained(
        8,
        _randn(64, 3, 128, 128),
        lambda image: image + 0.1 * torch.randn(64, 3, 128, 128).to(DEVICE),  # fault
        lambda image: image + 0.1 * torch.randn(64, 3, 128, 128, device=DEVICE),
    )


def _training(network: nn.Module, data: Tensor, steps: int, **options: Any) -> Body:
    optimizer = torch.optim.AdamW(network.parameters(), **options)

    def body() -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            network(data).square().mean().backward()
            optimizer.step()

    return body


@planted("single-tensor-optimizer")
def adam_by_parameter() -> Variants:
    """A kernel for each operator of each parameter."""
    network, data = perceptron(256, 24).to(DEVICE), _randn(64, 256)
    optimizer = torch.optim.AdamW(network.parameters(), foreach=False)

    def faulty() -> None:
        for _ in range(15):
            optimizer.zero_grad()
            network(data).square().mean().backward()
            optimizer.step()  # fault

    return faulty, _training(network, data, 15, fused=True)


@planted("attention-by-hand")
def attention_written_out() -> Variants:
    """All scores are written to memory."""
    query, key, value = (_randn(8, 16, 1024, 64, dtype=torch.bfloat16) for _ in range(3))

    return chained(
        100,
        query,
        lambda result: ((result @ key.transpose(-2, -1)) / 8.0).softmax(-1) @ value,  # fault
        lambda result: nn.functional.scaled_dot_product_attention(result, key, value),
    )


def with_tf32(body: Body) -> Body:
    """The same in TF32."""

    def run() -> object:
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            return body()
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False

    return run


@planted("full-precision-matmul")
def products_in_full_precision() -> Variants:
    """Without TF32, which is torch's default."""
    left, right = _randn(4096, 4096), _randn(4096, 4096)

    def products() -> Tensor:
        result = left
        for _ in range(40):
            result = result @ right  # fault
        return result

    return products, with_tf32(products)


@planted("double-precision")
def noise_in_double_precision() -> Variants:
    """What came from NumPy in float64 and was never converted."""
    signal = _randn(1 << 24, dtype=torch.float64)
    single = signal.float()

    def filtered(values: Tensor) -> Tensor:
        for _ in range(150):
            values = (values * 0.5 + 0.1).tanh()  # fault
        return values.sum()

    return lambda: filtered(signal), lambda: filtered(single)


@planted("for-loop-indexing")
def boxes_one_after_another() -> Variants:
    """A kernel or several for each of the boxes."""
    boxes = _randn(300, 4).abs()

    def faulty() -> Tensor:
        areas = []
        for i in range(300):
            areas.append((boxes[i, 2] + 1) * (boxes[i, 3] + 1))  # fault
        return torch.stack(areas)

    def fixed() -> Tensor:
        return (boxes[:, 2] + 1) * (boxes[:, 3] + 1)

    return faulty, fixed


@planted("tensor-by-tensor")
def averages_on_a_gpu_one_by_one() -> Variants:
    """An average of weights, as for evaluation."""
    weights = [_randn(256, 256) for _ in range(200)]
    averages = [torch.zeros_like(one) for one in weights]

    def faulty() -> None:
        for average, weight in zip(averages, weights, strict=True):
            average.mul_(0.99).add_(weight, alpha=0.01)  # fault

    def fixed() -> None:
        torch._foreach_mul_(averages, 0.99)
        torch._foreach_add_(averages, weights, alpha=0.01)

    return repeated(8, faulty, fixed)


@planted("launch-bound")
def layers_too_small_for_the_device() -> Variants:
    """Launching takes longer than all that is launched; a CUDA graph launches it at once."""
    network, batches = perceptron(128, 40).to(DEVICE).eval(), _randn(40, 16, 128)
    data = batches[0].clone()

    @torch.no_grad()
    def faulty() -> list[Tensor]:
        results = []
        for batch in batches:
            results.append(network(batch))  # fault
        return results

    if DEVICE == "cpu":
        return faulty, faulty
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad():
        network(data)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            result = network(data)

    def fixed() -> list[Tensor]:
        results = []
        for batch in batches:
            data.copy_(batch)
            graph.replay()
            results.append(result.clone())
        return results

    return faulty, fixed


class _Images(Dataset[Tensor]):
    """Each is computed on the host when it is asked for."""

    def __len__(self) -> int:
        return 256

    def __getitem__(self, index: int) -> Tensor:
        image = torch.full((3, 96, 96), float(index))
        for _ in range(4):
            image = image.roll(3, -1) * 0.9 + 0.1
        return image


@planted("synchronous-data-loading")
def images_made_between_steps() -> Variants:
    """The device waits while the training process makes the next batch."""
    network = nn.Sequential(
        nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    ).to(DEVICE)  # fmt: skip
    optimizer = torch.optim.SGD(network.parameters(), 1e-3, fused=True)

    def train(loader: DataLoader[Tensor]) -> None:
        for batch in loader:  # fault
            optimizer.zero_grad()
            network(batch.to(DEVICE, non_blocking=True)).square().mean().backward()
            optimizer.step()

    here = DataLoader(_Images(), batch_size=32)
    beside = DataLoader(_Images(), batch_size=32, num_workers=2, persistent_workers=True)
    return lambda: train(here), lambda: train(beside)


@planted("precision-casts", "repeated-copies")
def weights_cast_in_every_call() -> Variants:
    """To half precision and back, by hand."""
    weights, data = [_randn(2048, 2048) for _ in range(12)], _randn(64, 2048, dtype=torch.bfloat16)
    halves = [one.bfloat16() for one in weights]

    def through(result: Tensor) -> Tensor:
        for weight in weights:
            result = result @ weight.bfloat16()  # fault
        return result

    def through_halves(result: Tensor) -> Tensor:
        for weight in halves:
            result = result @ weight
        return result

    return chained(20, data, through, through_halves)


@planted("convolution-bias-before-batch-norm")
def bias_before_normalisation() -> Variants:
    """A bias that the normalisation takes away."""

    def network(has_bias: bool) -> nn.Module:
        layers: list[nn.Module] = []
        for channels in (3, 64, 64):
            layers += [
                nn.Conv2d(channels, 64, 3, bias=has_bias),  # fault
                nn.BatchNorm2d(64),
                nn.ReLU(),
            ]
        return nn.Sequential(*layers).to(DEVICE)

    data = _randn(32, 3, 96, 96)
    return tuple(_training(network(bias), data, 10, fused=True) for bias in (True, False))  # type: ignore[return-value]


@planted("repeated-results")
def frozen_network_run_again() -> Variants:
    """Features of the same images in every round."""
    frozen, head = perceptron(4096, 8).to(DEVICE, torch.bfloat16).eval(), nn.Linear(10, 10)
    head = head.to(DEVICE, torch.bfloat16)
    optimizer = torch.optim.SGD(head.parameters(), 1e-3, fused=True)
    images = _randn(4096, 4096, dtype=torch.bfloat16)

    def step(features: Tensor) -> None:
        optimizer.zero_grad()
        head(features).square().mean().backward()
        optimizer.step()

    with torch.no_grad():
        features = frozen(images)
    frozen.requires_grad_(False)
    return repeated(40, lambda: step(frozen(images)), lambda: step(features))  # fault


@planted("gradients-in-inference")
def evaluation_with_gradients() -> Variants:
    """Without ``no_grad``."""
    network, batches = perceptron(256, 24).to(DEVICE).eval(), _randn(60, 64, 256)

    def faulty() -> Tensor:
        total = torch.zeros((), device=DEVICE)
        for batch in batches:
            total += network(batch).sum()  # fault
        return total.detach()

    return faulty, torch.no_grad()(faulty)


@tuned
def transformer_in_half_precision() -> Body:
    """Attention in one call, a fused optimizer, enough for the device to do."""
    layer = nn.TransformerEncoderLayer(
        1024, 16, 4096, dropout=0.0, batch_first=True, device=DEVICE, dtype=torch.bfloat16
    )
    return _training(layer, _randn(128, 512, 1024, dtype=torch.bfloat16), 12, fused=True)


@tuned
def convolutions_with_channels_last() -> Body:
    """Batch normalisation behind convolutions without a bias, in half precision."""
    layers: list[nn.Module] = []
    for channels in (64, 64, 64):
        layers += [nn.Conv2d(channels, 64, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    network = nn.Sequential(*layers).to(DEVICE, torch.bfloat16, memory_format=torch.channels_last)
    data = _randn(128, 64, 64, 64, dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    return _training(network, data, 12, fused=True)


@tuned
def products_that_fill_the_device() -> Body:
    """One product after another in half precision."""
    left, right = (_randn(4096, 4096, dtype=torch.bfloat16) for _ in range(2))

    def body() -> Tensor:
        result = left
        for _ in range(40):
            result = result @ right
        return result

    return body


@tuned
def batches_copied_beside_the_steps() -> Body:
    """From pinned memory, on a stream of their own, one ahead."""
    network = perceptron(4096, 12).to(DEVICE, torch.bfloat16)
    batches = [torch.randn(4096, 4096, dtype=torch.bfloat16) for _ in range(12)]
    if DEVICE == "cpu":
        return lambda: [network(batch) for batch in batches].clear()
    pinned, beside = [one.pin_memory() for one in batches], torch.cuda.Stream()

    @torch.no_grad()
    def body() -> Tensor:
        total = torch.zeros((), device=DEVICE)
        for batch in pinned:
            with torch.cuda.stream(beside):
                here = batch.to(DEVICE, non_blocking=True)
            torch.cuda.current_stream().wait_stream(beside)
            here.record_stream(torch.cuda.current_stream())
            total += network(here).sum()
        return total

    return body
