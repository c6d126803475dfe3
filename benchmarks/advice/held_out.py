"""Programs written after the models of savings, to test these on unseen programs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.advice.networks import batch, perceptron, repeated, trainer
from benchmarks.advice.program import Variants, planted


@planted("for-loop-indexing", "many-small-operators")
def rows_scaled_in_place() -> Variants:
    """Each row of a matrix divided by its own length, in place."""
    x = torch.randn(6_000, 128)

    def faulty() -> Tensor:
        y = x.clone()
        for i in range(y.shape[0]):
            y[i] /= y[i].norm()  # fault
        return y

    return faulty, lambda: x / x.norm(dim=1, keepdim=True)


@planted("repeated-results", "repeated-constants")
def spectrum_of_the_same_kernel() -> Variants:
    """A filter of fixed weights taken to frequencies for every signal."""
    kernel, signals = torch.randn(1 << 17), torch.randn(60, 1 << 13)

    def run(again: bool) -> Tensor:
        total, known = torch.zeros(()), torch.fft.rfft(kernel)[: 1 << 12]
        for signal in signals:
            response = torch.fft.rfft(kernel)[: 1 << 12] if again else known  # fault
            total = total + (torch.fft.rfft(signal)[: 1 << 12] * response).abs().mean()
        return total

    return lambda: run(True), lambda: run(False)


@planted("time-outside-torch")
def predictions_written_as_text() -> Variants:
    """A line of text for every sample of every batch, of which only the last are read."""
    network, (data, _) = perceptron(64).eval(), batch(256, 64)
    names = [f"sample-{i}" for i in range(len(data))]

    def lines(scores: list[list[float]]) -> list[str]:
        return [
            name + "," + ",".join(f"{score:.4f}" for score in row)  # fault
            for name, row in zip(names, scores, strict=True)
        ]

    @torch.inference_mode()
    def run(every: bool) -> list[str]:
        text: list[str] = []
        for step in range(80):
            scores = network(data).softmax(1)
            if every or step == 79:
                text = lines(scores.tolist())  # fault
        return text

    return lambda: run(True), lambda: run(False)


@planted("tensor-by-tensor")
def moving_average_of_weights() -> Variants:
    """An average of all weights, tensor by tensor, after every step."""
    network, (data, target) = perceptron(48, 30), batch(32, 48)
    step, weights = trainer(network), [one.detach() for one in network.parameters()]
    averages = [one.clone() for one in weights]

    def run(together: bool) -> None:
        step(data, target)
        if together:
            torch._foreach_lerp_(averages, weights, 0.01)
            return
        for average, weight in zip(averages, weights, strict=True):
            average.lerp_(weight, 0.01)  # fault

    return repeated(40, lambda: run(False), lambda: run(True))


@planted("summed-broadcast")
def similarities_by_broadcasting() -> Variants:
    """All products of two sets of vectors in memory, to add them up."""
    queries, keys = torch.randn(256, 96), torch.randn(400, 96)
    return repeated(
        15,
        lambda: (queries[:, None] * keys[None]).sum(-1).softmax(1),  # fault
        lambda: (queries @ keys.T).softmax(1),
    )


@planted("for-loop-indexing", "many-small-operators")
def recurrence_by_hand() -> Variants:
    """A plain recurrent network written out, moment by moment."""
    layer, x = nn.RNN(24, 48), torch.randn(400, 8, 24)

    @torch.no_grad()
    def faulty() -> Tensor:
        state, states = torch.zeros(8, 48), []
        for t in range(x.shape[0]):
            state = torch.tanh(
                nn.functional.linear(x[t], layer.weight_ih_l0, layer.bias_ih_l0)  # fault
                + nn.functional.linear(state, layer.weight_hh_l0, layer.bias_hh_l0)  # fault
            )
            states.append(state)
        return torch.stack(states)

    return faulty, torch.no_grad()(lambda: layer(x)[0])
