"""A recording of a few operators, to see what would be recorded on this machine."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import opscope
from opscope.launch.program import execute
from opscope.trace.schema import EventKind
from opscope.trace.trace import Trace

_NOT_YET = "this version of opscope does not record it"

# Text, since calls that opscope's own functions make are not recorded.
_PROGRAM = """
network = torch.nn.Linear(4, 2, device=device)
network(torch.ones(3, 4, device=device)).sum().backward()
"""


@dataclass(frozen=True)
class Found:
    """What the trial found of one kind of thing that can be recorded.

    Attributes:
        name: for people.
        seen: whether the trial recorded any.
        asked_for: how to have it recorded.
        why_not: why the trial had none.
    """

    name: str
    seen: bool
    asked_for: str
    why_not: str


def record_a_little() -> Trace:
    """Record a small network's forward and backward pass with every option on.

    Raises:
        OpscopeError: recording does not work here.
    """
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    everything = opscope.profile(
        record_shapes=True, profile_memory=True, with_stack=True, with_modules=True
    )
    with everything, opscope.record_function("trial"):
        execute(compile(_PROGRAM, "<trial>", "exec"), {"torch": torch, "device": device})
    return everything.trace


def sources_seen(trace: Trace) -> Iterator[Found]:
    """What a trace of :func:`record_a_little` shows about each source."""
    kinds = set(np.unique(trace.events["kind"]).tolist())
    yield Found("operators", EventKind.OPERATOR in kinds, "always", "torch ran none")
    yield Found("annotations", EventKind.ANNOTATION in kinds, "always", _NOT_YET)
    yield Found("shapes", len(trace.table("tensors")) > 0, "--shapes", _NOT_YET)
    yield Found("memory", len(trace.table("allocations")) > 0, "--memory", _NOT_YET)
    # Functions that were running when the recording began are in every trace; only these show
    # that calls are recorded.
    called = any(name.endswith(": forward") for name in trace.names)
    yield Found("Python calls", called, "--stack", _NOT_YET)
    yield Found("nn.Module calls", EventKind.MODULE_CALL in kinds, "--modules", _NOT_YET)
    has_gpu_rows = len(trace.table("gpu")) > 0
    yield Found("GPU activity", has_gpu_rows, "where torch sees a GPU", _why_no_gpu(trace))


def _why_no_gpu(trace: Trace) -> str:
    import torch

    if torch.cuda.is_available():
        return str(trace.metadata.get("gpu", {}).get("unavailable", "nothing ran on it"))
    if torch.version.cuda is None:
        return "this torch was built without CUDA"
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return f"no NVIDIA driver here; this torch was built for CUDA {torch.version.cuda}"
    return "torch sees no GPU, though there is an NVIDIA driver; CUDA_VISIBLE_DEVICES may hide it"
