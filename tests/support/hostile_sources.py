"""Sound traces to damage: made up, random and, with torch, recorded; as folders and as JSON."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from opscope.api.trace import Trace
from opscope.columns.schema import EventKind
from support.build_trace import allocation, build_trace, kernel, span, tensor
from support.random_trace import random_trace

_RECORD = """
import sys, torch, opscope
model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(72, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
what = dict(with_stack=True, record_shapes=True, profile_memory=True, with_modules=True)
with opscope.profile(**what) as prof:
    for step in range(2):
        output = model(torch.randn(2, 1, 8, 8))
        loss = torch.nn.functional.cross_entropy(output, torch.tensor([1, 2]))
        torch.cat([loss.detach().reshape(1), torch.zeros(3)], dim=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
        prof.step()
prof.trace.save(sys.argv[1])
"""


def write_sources(folder: Path, random: np.random.Generator, recorded: bool) -> None:
    """Write ``folder/folder/*`` and ``folder/chrome/*``."""
    for kind in ("folder", "chrome"):
        (folder / kind).mkdir(parents=True)
    traces = {"built": built_trace()}
    for rows in (3, 40, 60):
        traces[f"random-{rows}"] = random_trace(int(random.integers(1 << 30)), rows)
    for name, trace in traces.items():
        _write(trace, name, folder)
    if recorded:
        path = folder / "recorded"
        subprocess.run([sys.executable, "-c", _RECORD, str(path)], check=True)
        from opscope import load_trace

        _write(load_trace(path), "recorded", folder)


def _write(trace: Trace, name: str, folder: Path) -> None:
    rank = trace.save(folder / f"{name}.saved")
    rank.rename(folder / "folder" / name)
    trace.export("chrome", folder / "chrome" / f"{name}.json")


def built_trace() -> Trace:
    """A few of everything, devices too."""
    frame, caller = ("train.py", 3, "train"), ("main.py", 9, "<module>")
    spans = [
        span("ProfilerStep#0", 0, 200),
        span("train.py(3): train", 1, 190, kind=EventKind.PYTHON_CALL, frame=frame, caller=caller),
        span("Net_0", 2, 60, kind=EventKind.MODULE_CALL, module="Net_0", frame=frame),
        span("aten::mm", 3, 20, inputs=[tensor(2, 3, tensor_id=1, allocation_id=1, storage=16),
             tensor(3, 4, tensor_id=2, allocation_id=2, storage=64)],
             outputs=[tensor(2, 4, tensor_id=3, allocation_id=3, storage=256)], sequence_number=5),
        span("cudaLaunchKernel", 5, 8, kind=EventKind.RUNTIME_CALL),
        span("aten::conv2d", 22, 40, inputs=[tensor(1, 1, 8, 8), tensor(2, 1, 3, 3), None, [1, 1],
             [0, 0], [1, 1], 1]),
        span("aten::cat", 42, 50, inputs=[[tensor(3), tensor(4)], 0]),
        span("Optimizer.step#SGD.step", 62, 80, kind=EventKind.OPTIMIZER_CALL, optimizer="SGD"),
        span("gc: generation 2", 90, 95, kind=EventKind.GC_PAUSE),
        span("autograd::engine::evaluate_function: MmBackward0", 100, 140, "autograd"),
        span("MmBackward0", 101, 130, "autograd", sequence_number=5, forward_thread=1),
        span("aten::item", 150, None, inputs=[tensor()]),
    ]  # fmt: skip
    return build_trace(
        spans,
        allocations=[
            allocation(4.0, 32, address=16, allocation_id=1, tensor_id=1),
            allocation(6.0, 48, address=64, allocation_id=2, tensor_id=2),
            allocation(120.0, -32, address=16, allocation_id=1, tensor_id=1),
        ],
        gpu=[kernel("sgemm", 10, 30, launch=4), kernel("relu", 25, 35, launch=4)],
        metadata={"options": {"shapes": True, "memory": True}, "user": {"a": 1}, "process_id": 77},
        ledger={"events": {"recorded": 12.0}, "recorder": {"cost_ns of one operator": 80.0}},
    )
