"""Programs that use a GPU in ways that matter to a profiler; ``benchmarks/gpu.py`` runs them too.

Each function sets one up and returns what to run.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

Program = Callable[[], None]


def tiny_kernels(launches: int = 1000) -> Program:
    """A loop bound by launching: what a profiler costs per launch shows here."""
    x = torch.ones(16, device="cuda")

    def run() -> None:
        for _ in range(launches):
            x.add_(1)

    return run


def transformer(steps: int = 2) -> Program:
    """Training steps of a small transformer layer: forward, backward on its thread, optimizer."""
    layer = torch.nn.TransformerEncoderLayer(256, 4, 512, batch_first=True, device="cuda")
    optimizer = torch.optim.AdamW(layer.parameters(), fused=True)
    x = torch.randn(8, 64, 256, device="cuda")

    def run() -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            layer(x).square().mean().backward()
            optimizer.step()

    return run


def graph_replay(replays: int = 20) -> Program:
    """Replays of a captured forward pass."""
    network = torch.nn.Sequential(
        torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256)
    ).cuda()
    x = torch.randn(64, 256, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad():
        network(x)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            network(x)

    def run() -> None:
        for _ in range(replays):
            graph.replay()

    return run


def reduce_gradients(buckets: int = 8) -> Program:
    """What data parallel training does with gradients, on one GPU: buckets on a stream beside."""
    gradients = [torch.randn(1 << 18, device="cuda") for _ in range(buckets)]
    beside = torch.cuda.Stream()

    def run() -> None:
        for gradient in gradients:
            beside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(beside):
                gradient.copy_(gradient * 0.5)
        torch.cuda.current_stream().wait_stream(beside)

    return run
