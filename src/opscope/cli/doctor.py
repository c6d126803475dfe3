"""``opscope doctor``: what is installed, what would be recorded, and why not the rest."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np
from rich.table import Table
from rich.text import Text

import opscope
from opscope.analysis.device_account import describe_devices
from opscope.analysis.recording_cost import cost_of_an_event_ns
from opscope.cli.shown.console import console_for
from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData
from opscope.errors import BridgeError, OpscopeError
from opscope.launch.program import execute
from opscope.recording.bridge import bridge


class Health(str, Enum):
    """How a check is marked; ``FATAL`` means that nothing can be recorded."""

    GOOD = "ok"
    ABSENT = "no"
    FATAL = "fails"


_STYLES = {Health.GOOD: "green", Health.ABSENT: "yellow", Health.FATAL: "bold red"}


@dataclass(frozen=True)
class Check:
    """One line of the answer: what was looked at, how it is, and what to do about it."""

    what: str
    verdict: Health
    detail: str


def doctor() -> int:
    """Say what is installed, what would be recorded, and why not the rest.

    Records a few operators to find out. Exits with 0 if recording works, else with 1.
    """
    table = Table(box=None, show_header=False, pad_edge=False)
    checks = []
    for check in _examine():
        checks.append(check)
        mark = Text(check.verdict.value, _STYLES[check.verdict])
        table.add_row(Text(check.what), mark, Text(check.detail))
    console_for(sys.stdout).print(table)
    return int(any(check.verdict is Health.FATAL for check in checks))


def _examine() -> Iterator[Check]:
    yield Check("Python", Health.GOOD, f"{platform.python_version()} at {sys.executable}")
    yield Check("opscope", Health.GOOD, opscope.__version__)
    yield _clock()
    try:
        status = bridge.status()
    except BridgeError as error:
        status = None
        yield Check("torch", Health.FATAL, str(error))
    if status is None:
        return
    yield Check("torch", Health.GOOD, str(status.torch_version))
    yield _compiler(status)
    yield _bridge(status)
    yield from _recording()


def _clock() -> Check:
    machine = platform.machine()
    if machine not in ("x86_64", "AMD64", "i386", "i686"):
        return Check("clock", Health.GOOD, f"the system counter of {machine}")
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            flags = next((line.split() for line in file if line.startswith("flags")), [])
    except OSError:
        flags = []
    if "constant_tsc" in flags and "nonstop_tsc" in flags:
        return Check("clock", Health.GOOD, "time stamp counter, constant and never stopping")
    return Check(
        "clock",
        Health.ABSENT,
        "the time stamp counter is not known to be constant here (a virtual machine may hide it), "
        "so long durations may be off by as much as the CPU's frequency changes",
    )


def _compiler(status: bridge.BridgeStatus) -> Check:
    if status.compiler is not None:
        return Check("compiler", Health.GOOD, status.compiler)
    return Check(
        "compiler",
        Health.ABSENT if status.built else Health.FATAL,
        "no C++ compiler found; one is needed to build the bridge to another torch. Install g++ "
        "or set CXX",
    )


def _bridge(status: bridge.BridgeStatus) -> Check:
    if status.shipped:
        return Check("bridge", Health.GOOD, f"came with opscope: {status.path}")
    if status.built:
        return Check("bridge", Health.GOOD, f"built for this torch: {status.path}")
    detail = f"not built yet; it will be at first use, in {bridge.cache_folder()}"
    return Check("bridge", Health.ABSENT, detail)


def _recording() -> Iterator[Check]:
    """Try it: what a recording with everything switched on holds is what would be recorded."""
    try:
        trace = record_a_little()
    except OpscopeError as error:
        yield Check("recording", Health.FATAL, str(error))
        return
    cost_ns = cost_of_an_event_ns(trace)
    cost = f"; one event costs about {cost_ns:.0f} ns" if cost_ns else ""
    works = len(trace.events) > 0
    detail = f"{len(trace.events)} events in a trial{cost}" if works else "a trial recorded nothing"
    yield Check("recording", Health.GOOD if works else Health.FATAL, detail)
    if len(trace.table("gpu")):  # otherwise the line about the source below says it
        for line in describe_devices(trace):
            yield Check("devices", Health.FATAL if "BROKEN" in line else Health.GOOD, line)
    for source in sources_seen(trace):
        if source.seen:
            yield Check(f"  {source.name}", Health.GOOD, source.asked_for)
        else:
            yield Check(f"  {source.name}", Health.ABSENT, source.why_not)


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


def record_a_little() -> TraceData:
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


def sources_seen(trace: TraceData) -> Iterator[Found]:
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


def _why_no_gpu(trace: TraceData) -> str:
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
