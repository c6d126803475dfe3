"""Programs on a GPU that nothing was fitted to: written when other programs had been looked at.

Where torch sees none they run on the CPU, which tries out that they run and nothing else.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.advice.networks import chained, perceptron, repeated
from benchmarks.advice.program import Body, Variants, planted, tuned

_HALF = torch.bfloat16
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def with_tf32(body: Body) -> Body:
    """The same in TF32."""

    def run() -> object:
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            return body()
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False

    return run


def _on_device(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*sizes, device=DEVICE, dtype=dtype)


@planted("implicit-synchronisation")
def accuracy_counted_on_the_host() -> Variants:
    """Predictions are fetched in every step to be compared."""
    network = perceptron(2048, 8).to(DEVICE, _HALF)
    data, target = _on_device(4096, 2048, dtype=_HALF), torch.randint(10, (4096,))
    there = target.to(DEVICE)

    @torch.no_grad()
    def faulty() -> int:
        right = 0
        for _ in range(80):
            predicted = network(data + right % 2).argmax(1)
            right += int((predicted.cpu() == target).sum())  # fault
        return right

    @torch.no_grad()
    def fixed() -> int:
        right = torch.zeros((), dtype=torch.int64, device=DEVICE)
        for _ in range(80):
            predicted = network(data + right % 2).argmax(1)
            right += (predicted == there).sum()
        return int(right)

    return faulty, fixed


@planted("implicit-synchronisation")
def loss_looked_at_before_each_step() -> Variants:
    """``if`` on a tensor, to leave out steps that are not finite."""
    network = perceptron(512, 8).to(DEVICE)
    optimizer = torch.optim.AdamW(network.parameters(), fused=True)
    data = _on_device(256, 512)

    def train(looks: bool) -> None:
        for _ in range(40):
            optimizer.zero_grad()
            loss = network(data).square().mean()
            loss.backward()
            if looks and not torch.isfinite(loss):  # fault
                continue
            optimizer.step()

    return lambda: train(True), lambda: train(False)


@planted("extra-device-copy", "repeated-constants", "repeated-copies", "implicit-synchronisation")
def positions_made_on_the_host() -> Variants:
    """In every call of the network anew."""
    table = nn.Embedding(8192, 256).to(DEVICE)
    data = _on_device(8, 8192, 256)

    @torch.no_grad()
    def faulty() -> Tensor:
        total = torch.zeros((), device=DEVICE)
        for i in range(60):
            positions = torch.arange(8192).to(DEVICE)  # fault
            total += (data * i + table(positions)).sum()
        return total

    @torch.no_grad()
    def fixed() -> Tensor:
        total, positions = torch.zeros((), device=DEVICE), torch.arange(8192, device=DEVICE)
        for i in range(60):
            total += (data * i + table(positions)).sum()
        return total

    return faulty, fixed


@planted("single-tensor-optimizer")
def momentum_by_parameter() -> Variants:
    """SGD with momentum, a few kernels for each of many parameters."""
    network = perceptron(512, 40).to(DEVICE)
    data = _on_device(128, 512)

    def body(fused: bool) -> Body:
        optimizer = torch.optim.SGD(
            network.parameters(), 1e-3, momentum=0.9, fused=fused, foreach=False
        )

        def train() -> None:
            for _ in range(20):
                optimizer.zero_grad()
                network(data).square().mean().backward()
                optimizer.step()  # fault

        return train

    return body(False), body(True)


@planted("attention-by-hand")
def masked_attention_in_single_precision() -> Variants:
    """With a mask that is added."""
    query, key, value = (_on_device(4, 8, 1024, 64) for _ in range(3))
    mask = torch.full((1024, 1024), float("-inf"), device=DEVICE).triu(1)

    return chained(
        60,
        query,
        lambda result: (result @ key.transpose(-2, -1) / 8.0 + mask).softmax(-1) @ value,  # fault
        lambda result: nn.functional.scaled_dot_product_attention(result, key, value, mask),
    )


@planted("for-loop-indexing")
def steps_through_a_sequence() -> Variants:
    """A recurrent cell in a Python loop; cuDNN has the whole layer."""
    cell, layer = nn.GRUCell(128, 256).to(DEVICE), nn.GRU(128, 256).to(DEVICE)
    data = _on_device(200, 32, 128)

    @torch.no_grad()
    def faulty() -> Tensor:
        state = torch.zeros(32, 256, device=DEVICE)
        for i in range(200):
            state = cell(data[i], state)  # fault
        return state

    @torch.no_grad()
    def fixed() -> Tensor:
        return layer(data)[1]

    return faulty, fixed


@planted("tensor-by-tensor", "implicit-synchronisation")
def norms_taken_one_by_one() -> Variants:
    """Gradients are clipped by hand, each norm asked for by itself."""
    gradients = [_on_device(512, 512) for _ in range(150)]

    def faulty() -> None:
        total = sum(float(one.norm()) ** 2 for one in gradients) ** 0.5  # fault
        for one in gradients:
            one.mul_(min(1.0, 1.0 / (total + 1e-6)))  # fault

    def fixed() -> None:
        norms = torch.stack(torch._foreach_norm(gradients))
        torch._foreach_mul_(gradients, (1.0 / (norms.norm() + 1e-6)).clamp(max=1.0))

    return repeated(6, faulty, fixed)


@planted("growing-concatenation")
def keys_kept_by_concatenation() -> Variants:
    """Each token copies all that came before."""
    token = _on_device(16, 32, 1, 128, dtype=_HALF)

    def faulty() -> Tensor:
        keys = _on_device(16, 32, 1, 128, dtype=_HALF)
        for _ in range(600):
            keys = torch.cat([keys, token], dim=2)  # fault
        return keys

    def fixed() -> Tensor:
        keys = torch.empty(16, 32, 601, 128, device=DEVICE, dtype=_HALF)
        for i in range(600):
            keys[:, :, i + 1 : i + 2] = token
        return keys

    return faulty, fixed


@planted("modules-one-by-one", "for-loop-indexing", "launch-bound")
def experts_one_after_another() -> Variants:
    """A layer for each of many experts, which all get the same."""
    experts = nn.ModuleList(nn.Linear(256, 64) for _ in range(32)).to(DEVICE)
    together, batches = nn.Linear(256, 32 * 64).to(DEVICE), _on_device(30, 128, 256)

    @torch.no_grad()
    def faulty() -> list[Tensor]:
        results = []
        for batch in batches:
            results.append(torch.cat([expert(batch) for expert in experts], 1))  # fault
        return results

    @torch.no_grad()
    def fixed() -> list[Tensor]:
        return [together(batch) for batch in batches]

    return faulty, fixed


@planted("full-precision-matmul")
def training_in_full_precision() -> Variants:
    """A perceptron with batches that fill the device."""
    network, data = perceptron(4096, 4).to(DEVICE), _on_device(4096, 4096)
    optimizer = torch.optim.AdamW(network.parameters(), fused=True)

    def train() -> None:
        for _ in range(6):
            optimizer.zero_grad()
            loss = network(data).square().mean()  # fault
            loss.backward()  # fault
            optimizer.step()

    return train, with_tf32(train)


@tuned
def replays_of_a_graph() -> Body:
    """A whole network in one launch."""
    network, data = perceptron(2048, 20).to(DEVICE, _HALF), _on_device(2048, 2048, dtype=_HALF)
    if DEVICE == "cpu":
        return lambda: network(data)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad():
        network(data)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            network(data)

    def body() -> None:
        for _ in range(30):
            graph.replay()

    return body


@tuned
def generation_with_room_for_keys() -> Body:
    """Large products for one token at a time, bound by memory."""
    weights = [_on_device(8192, 8192, dtype=_HALF) for _ in range(8)]
    token = _on_device(8, 8192, dtype=_HALF)

    @torch.no_grad()
    def body() -> Tensor:
        state = token
        for _ in range(40):
            for weight in weights:
                state = nn.functional.rms_norm(state @ weight, (8192,))
        return state

    return body
