"""A recording of a few operators, to see what would be recorded on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import opscope
from opscope.trace.schema import EventKind
from opscope.trace.trace import Trace

_NOT_YET = "this version of opscope does not record it"


@dataclass(frozen=True)
class Source:
    """One kind of thing that can be recorded.

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
        network = torch.nn.Linear(4, 2, device=device)
        network(torch.ones(3, 4, device=device)).sum().backward()
    return everything.trace


def sources_seen(trace: Trace) -> Iterator[Source]:
    """What a trace of :func:`record_a_little` shows about each source."""
    import torch

    kinds = set(np.unique(trace.events["kind"]).tolist())
    yield Source("operators", EventKind.OPERATOR in kinds, "always", "torch ran none")
    yield Source("annotations", EventKind.ANNOTATION in kinds, "always", _NOT_YET)
    yield Source("shapes", len(trace.table("tensors")) > 0, "--shapes", _NOT_YET)
    yield Source("memory", len(trace.table("allocations")) > 0, "--memory", _NOT_YET)
    yield Source("Python calls", EventKind.PYTHON_CALL in kinds, "--stack", _NOT_YET)
    yield Source("nn.Module calls", EventKind.MODULE_CALL in kinds, "--modules", _NOT_YET)
    refused = str(trace.metadata.get("gpu", {}).get("unavailable", "nothing ran on it"))
    no_gpu = refused if torch.cuda.is_available() else "torch sees no GPU"
    yield Source("GPU activity", len(trace.table("gpu")) > 0, "where torch sees a GPU", no_gpu)
