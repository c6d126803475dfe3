"""Programs with a mistake in how they train, infer or load their data."""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.advice.networks import batch, perceptron, repeated, trainer
from benchmarks.advice.program import Variants, planted

LOADING = ("synchronous-data-loading",)


class Slow(Dataset[Tensor]):
    """Samples that take a while to come, as from a disk or a network."""

    def __len__(self) -> int:
        return 160

    def __getitem__(self, index: int) -> Tensor:
        time.sleep(0.001)
        return torch.full((256,), float(index))


@planted(*LOADING)
def loading_between_steps() -> Variants:
    """A data set that waits, loaded by the process that trains."""
    step, target = trainer(perceptron(384, 3)), batch(16)[1]
    widen = nn.Linear(256, 384)
    loader = DataLoader(Slow(), batch_size=16)
    beside = DataLoader(Slow(), batch_size=16, num_workers=2, persistent_workers=True)

    def epoch(batches: DataLoader[Tensor]) -> None:
        for data in batches:  # fault
            step(widen(data), target)

    return repeated(3, lambda: epoch(loader), lambda: epoch(beside))


@planted(*LOADING)
def collating_samples() -> Variants:
    """A data set in memory, indexed sample by sample and put together again."""
    step, (data, target) = trainer(perceptron(64, 2)), batch(8_000, 64)
    loader = DataLoader(TensorDataset(data, target), batch_size=200)

    def faulty() -> None:
        for part, wanted in loader:  # fault
            step(part, wanted)

    def fixed() -> None:
        for part, wanted in zip(data.split(200), target.split(200), strict=True):
            step(part, wanted)

    return repeated(4, faulty, fixed)


@planted("gradients-in-inference")
def inference_with_gradients() -> Variants:
    """A forward pass alone, recorded for a backward pass that never comes."""
    network, (data, _) = perceptron(32, 12).eval(), batch(8, 32)

    def infer() -> None:
        for _ in range(500):
            network(data)  # fault

    return infer, torch.inference_mode()(infer)


@planted("memory-that-grows", grows=True)
def losses_kept() -> Variants:
    """Losses kept with their graphs."""
    network, (data, target) = perceptron(128), batch(512)

    def run(keep: bool) -> list[Tensor]:
        losses = []
        for _ in range(40):
            loss = nn.functional.cross_entropy(network(data), target)
            losses.append(loss if keep else loss.detach())  # fault
        return losses

    return lambda: run(True), lambda: run(False)


@planted("memory-that-grows", grows=True)
def total_with_graph() -> Variants:
    """A running total, for a log, that keeps the graphs of all that was added."""
    network, (data, target) = perceptron(128), batch(512)
    step, critic = trainer(network), perceptron(128)

    def train(keep: bool) -> Tensor:
        total = torch.zeros(())
        for _ in range(40):
            step(data, target)
            shown = critic(data).mean()
            total = total + (shown if keep else shown.detach())  # fault
        return total

    return lambda: train(True), lambda: train(False)


@planted("anomaly-detection")
def anomaly_mode_left_on() -> Variants:
    """Every operation notes where it was called, and every gradient is checked."""
    step, (data, target) = trainer(perceptron(64, 6)), batch(64, 64)

    def fixed() -> None:
        for _ in range(60):
            step(data, target)

    def faulty() -> None:
        with torch.autograd.set_detect_anomaly(True):  # fault
            fixed()

    return faulty, fixed


@planted("single-tensor-optimizer")
def parameter_by_parameter() -> Variants:
    """Adam in a loop over many small parameters."""
    (data, target), many, same = batch(16, 32), perceptron(32, 40), perceptron(32, 40)
    slow = torch.optim.Adam(many.parameters(), foreach=False)
    fast = torch.optim.Adam(same.parameters(), fused=True)

    def train(network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(data), target).backward()
        optimizer.step()  # fault

    return repeated(60, lambda: train(many, slow), lambda: train(same, fast))


@planted("gradients-set-to-zero")
def gradients_zeroed() -> Variants:
    """Many small gradients filled with zeros and added to."""
    network = nn.ParameterList(torch.randn(12_000) for _ in range(200))

    def train(to_none: bool) -> None:
        network.zero_grad(set_to_none=to_none)  # fault
        torch.cat(list(network)).square().sum().backward()

    return repeated(40, lambda: train(False), lambda: train(True))


@planted("computed-twice")
def forward_for_the_metric() -> Variants:
    """The network runs a second time on the same batch, for its accuracy."""
    network, (data, target) = perceptron(256, 3), batch(128, 256)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, fused=True)

    def train(twice: bool) -> int:
        right = 0
        for _ in range(20):
            optimizer.zero_grad()
            output = network(data)
            with torch.no_grad():
                scores = network(data) if twice else output  # fault
                right += int((scores.argmax(1) == target).sum())
            nn.functional.cross_entropy(output, target).backward()
            optimizer.step()
        return right

    return lambda: train(True), lambda: train(False)
