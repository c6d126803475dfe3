"""What opscope makes of a file, in the words of a plain reading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tests.public_traces.plain_reading import Reading, union_ns

from opscope.api.trace import Trace
from opscope.columns.codes import AllocationAction, EventKind, GpuKind
from opscope.storage.chrome import load_chrome_processes

_EVENTS = {
    EventKind.OPERATOR: "operator",
    EventKind.RUNTIME_CALL: "runtime",
    **dict.fromkeys(
        (
            EventKind.PYTHON_CALL,
            EventKind.C_CALL,
            EventKind.MODULE_CALL,
            EventKind.OPTIMIZER_CALL,
            EventKind.GC_PAUSE,
        ),
        "python",
    ),
}
_WORK = {
    GpuKind.KERNEL: "kernel",
    GpuKind.COPY: "copy",
    GpuKind.SET: "set",
    GpuKind.SYNCHRONISATION: "synchronisation",
    GpuKind.ANNOTATION: "device annotation",
}


def read_by_opscope(path: Path) -> tuple[Reading, list[str]]:
    """The same of opscope, and what it says of numbers that cannot be true.

    Raises:
        OpscopeError: it cannot be read.
    """
    from opscope.timeline.doubts import doubts

    found, said = Reading(), []
    for part, trace in load_chrome_processes(path).items():
        said += doubts(trace)
        found.counts += _counts(trace)
        found.steps |= {name for name in _names(trace) if name.startswith("ProfilerStep#")}
        for device, busy_ns in _busy(trace):
            found.busy_ns[device if part is None else f"{part} {device}"] = busy_ns
    return found, said


def _counts(trace: Trace) -> Counter[str]:
    found: Counter[str] = Counter()
    for kind, count in zip(*np.unique(trace.events["kind"], return_counts=True), strict=True):
        found[_EVENTS.get(kind, "other span")] += int(count)
    kinds = trace.table("gpu")["kind"]
    for kind, count in zip(*np.unique(kinds, return_counts=True), strict=True):
        found[_WORK[GpuKind(kind)]] += int(count)
    if memory := len(trace.table("allocations")["action"]):
        assert set(trace.table("allocations")["action"].tolist()) <= {*AllocationAction}
        found["memory"] = memory
    if overheads := len(trace.table("gpu_overheads")):
        found["overhead"] = overheads
    return found


def _names(trace: Trace) -> Iterator[str]:
    return (trace.names[name] for name in np.unique(trace.events["name"]).tolist() if name >= 0)


def _busy(trace: Trace) -> Iterator[tuple[str, int]]:
    gpu = trace.table("gpu")
    is_work = gpu["kind"] <= GpuKind.SET
    for device in np.unique(gpu["device_index"][is_work]).tolist():
        rows = np.flatnonzero(is_work & (gpu["device_index"] == device))
        start = gpu["start_ns"][rows].tolist()
        took = gpu["duration_ns"][rows].tolist()
        spans = zip(start, (a + b for a, b in zip(start, took, strict=True)), strict=True)
        yield str(device), union_ns(spans)


def differences(plain: Reading, ours: Reading) -> list[str]:
    """Where two readings of a file differ, in words."""
    return [
        *(
            f"{what}: {plain.counts[what]:,} in the file, {ours.counts[what]:,} read"
            for what in sorted(plain.counts | ours.counts)
            if plain.counts[what] != ours.counts[what]
        ),
        *(
            f"device {device}: busy {plain.busy_ns.get(device, 0):,} ns in the file, "
            f"{ours.busy_ns.get(device, 0):,} read"
            for device in sorted({*plain.busy_ns, *ours.busy_ns})
            if plain.busy_ns.get(device, 0) != ours.busy_ns.get(device, 0)
        ),
        *(
            [f"steps: {len(plain.steps)} in the file, {len(ours.steps)} read"]
            if plain.steps != ours.steps
            else []
        ),
    ]
