"""A job of some ranks on gloo, one of which has a fault: ``straggling_job.py 4 backward 2 0.5``.

The arguments are how many ranks there are, the fault, which rank has it, and how much of a step.
It prints how many nanoseconds longer a step of that rank takes for it.
"""

import gc
import os
import select
import socket
import subprocess
import sys
import threading
import time
from typing import Any

STEPS = 60
MEASURED_STEPS = 4
WIDTH, LAYERS = 192, 6

BURST = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
for line in sys.stdin:
    end = time.perf_counter() + float(line)
    while time.perf_counter() < end:
        pass
    print(flush=True)
"""
"""Takes that processor for as many seconds as it is told, again and again."""


def main() -> None:
    if "RANK" in os.environ:
        return train(int(os.environ["RANK"]), *sys.argv[1:])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = []
    for rank in range(int(sys.argv[1])):
        place = {"RANK": str(rank), "WORLD_SIZE": sys.argv[1], "MASTER_PORT": str(port)}
        environment = {**os.environ, **place, "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
        ranks.append(subprocess.Popen([sys.executable, *sys.argv], env=environment))
    sys.exit(max(rank.wait() for rank in ranks))


class OtherProcess:
    """One that takes this one's processor while it computes."""

    def __init__(self) -> None:
        self._everywhere = os.sched_getaffinity(0)
        self._here = min(self._everywhere)
        command = [sys.executable, "-S", "-c", BURST, str(self._here)]
        pipe = subprocess.PIPE
        self._other = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1)

    def burst(self, seconds: float) -> None:
        """Compute on a processor that the other one is preferred on for so long."""
        assert self._other.stdin and self._other.stdout
        os.sched_setaffinity(0, {self._here})
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        self._other.stdin.write(f"{seconds}\n")
        while not select.select([self._other.stdout], [], [], 0)[0]:
            sum(range(1000))
        self._other.stdout.readline()
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # needs root, or RLIMIT_NICE
        os.sched_setaffinity(0, self._everywhere)

    def end(self) -> None:
        """It goes."""
        self._other.kill()
        self._other.wait()


def train(rank: int, _size: str, fault: str, slow: str, strength: str) -> None:
    import torch
    import torch.distributed as dist
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    is_slow = rank == int(slow)
    extra_s = 0.0

    def work(seconds: float) -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            torch.mm(matrix, matrix)

    class Identity(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            if is_slow and extra_s and fault == "backward":
                work(extra_s)
            if is_slow and extra_s and fault == "sleep-in-backward":
                time.sleep(extra_s)
            return gradient

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))

        def forward(self, x: torch.Tensor) -> Any:
            for layer in self.layers:
                x = layer(x).relu()
            if is_slow and extra_s and fault == "forward":
                work(extra_s)
            return Identity.apply(x)

    class Samples(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 32 * STEPS

        def __getitem__(self, index: int) -> torch.Tensor:
            if is_slow and extra_s and fault == "loader" and index % 32 == 0:
                time.sleep(extra_s)
            return data[index % 32]

    def hold_the_lock() -> None:
        while True:
            asked.acquire()
            with lock:
                time.sleep(extra_s)

    matrix, data = torch.randn(96, 96), torch.randn(32, WIDTH)
    model = nn.parallel.DistributedDataParallel(Network(), bucket_cap_mb=0.3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    lock, asked = threading.Lock(), threading.Semaphore(0)
    garbage = [[i] for i in range(200_000)] if is_slow and fault == "collection" else []
    if is_slow and fault == "lock":
        threading.Thread(target=hold_the_lock, daemon=True).start()
    gc.disable()
    other = OtherProcess() if is_slow and fault == "descheduled" else None
    begin = time.perf_counter()
    for step, batch in enumerate(torch.utils.data.DataLoader(Samples(), batch_size=32)):
        loss = model(batch).square().mean()
        loss.backward()
        if is_slow and extra_s and fault == "python":
            end = time.perf_counter() + extra_s
            while time.perf_counter() < end:
                sum(range(1000))
        if is_slow and extra_s and fault == "lock":
            asked.release()
            time.sleep(0.0005)
            with lock:
                pass
        if is_slow and extra_s and fault == "collection":
            end = time.perf_counter() + extra_s
            while time.perf_counter() < end:
                gc.collect()
        if other and extra_s:
            other.burst(extra_s)
        optimizer.step()
        optimizer.zero_grad()
        if step + 1 == MEASURED_STEPS:
            extra_s = float(strength) * (time.perf_counter() - begin) / MEASURED_STEPS
            if is_slow:
                print(f"planted {extra_s * 1e9:.0f}", flush=True)
    if other:
        other.end()
    del garbage
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
