"""Programs that use a GPU in ways that matter to a profiler; ``benchmarks/gpu.py`` runs them too.

Each function sets one up and returns what to run. ``device`` may be ``cpu``, to try a program out.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable

import torch

Program = Callable[[], None]


def tiny_kernels(device: str = "cuda", launches: int = 1000) -> Program:
    """A loop bound by launching: what a profiler costs per launch shows here."""
    x = torch.ones(16, device=device)

    def run() -> None:
        for _ in range(launches):
            x.add_(1)

    return run


def transformer(device: str = "cuda", steps: int = 2) -> Program:
    """Training steps of a small transformer layer: forward, backward on its thread, optimizer."""
    layer = torch.nn.TransformerEncoderLayer(256, 4, 512, batch_first=True, device=device)
    optimizer = torch.optim.AdamW(layer.parameters(), fused=True)
    x = torch.randn(8, 64, 256, device=device)

    def run() -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            layer(x).square().mean().backward()
            optimizer.step()

    return run


def graph_replay(device: str = "cuda", replays: int = 20) -> Program:
    """Replays of a captured forward pass; on a CPU, the pass itself."""
    network = torch.nn.Sequential(
        torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256)
    ).to(device)
    x = torch.randn(64, 256, device=device)

    def one_pass() -> None:
        with torch.no_grad():
            network(x)

    one_pass()
    replay: Callable[[], object] = one_pass
    if device == "cuda":
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            one_pass()
        replay = graph.replay

    def run() -> None:
        for _ in range(replays):
            replay()

    return run


def data_parallel(device: str = "cuda", steps: int = 2) -> Program:
    """Steps of DistributedDataParallel in a group of one: gradients are reduced beside backward."""
    backend = "nccl" if device == "cuda" else "gloo"
    if not torch.distributed.is_initialized():
        with tempfile.NamedTemporaryFile() as file:
            store = torch.distributed.FileStore(file.name, 1)
        torch.distributed.init_process_group(backend, store=store, rank=0, world_size=1)
    layers = [torch.nn.Linear(512, 512) for _ in range(4)]
    network = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*layers).to(device), bucket_cap_mb=1
    )
    x = torch.randn(64, 512, device=device)

    def run() -> None:
        for _ in range(steps):
            network(x).sum().backward()

    return run


def streams(device: str = "cuda", buckets: int = 8) -> Program:
    """Copies on a stream beside, that wait for the current one and are waited for."""
    buffers = [torch.randn(1 << 18, device=device) for _ in range(buckets)]
    if device == "cpu":
        return lambda: [buffer.copy_(buffer * 0.5) for buffer in buffers].clear()
    beside = torch.cuda.Stream()

    def run() -> None:
        for buffer in buffers:
            beside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(beside):
                buffer.copy_(buffer * 0.5)
        torch.cuda.current_stream().wait_stream(beside)

    return run


PROGRAMS: dict[str, Callable[[str], Program]] = {
    "transformer training steps": transformer,
    "CUDA graph replays": graph_replay,
    "launch-bound loop of tiny kernels": tiny_kernels,
    "data parallel steps": data_parallel,
    "two streams": streams,
}


def warm_up(program: Program, device: str = "cuda") -> None:
    """Run it until it does the same each time.

    In their first runs optimizers set up their state, and data parallel training builds its
    buckets anew.
    """
    for _ in range(3):
        program()
    wait_for(device)


def wait_for(device: str) -> None:
    """Until the device has run everything."""
    if device == "cuda":
        torch.cuda.synchronize()
