"""Waits for the device: reads of values, and blocking copies."""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import time_text
from opscope.columns.codes import GpuKind
from opscope.columns.schema import EventKind
from opscope.findings.pattern import Evidence, Pattern
from opscope.findings.saving import Saves
from opscope.findings.status import Status
from opscope.findings.subject import CUDA, Subject, Values

_READS = ("aten::_local_scalar_dense", "aten::is_nonzero", "aten::nonzero", "aten::masked_select")
"""Operators whose value or shape Python needs before it can continue."""

_ASKED = ("aten::item", "aten::index", "aten::equal")
"""Operators that a program calls to read a value, directly or as ``x[mask]``."""

_WAITS = ("Synchronize", "cudaMemcpy")
_WORTH_SAYING = 0.005
_PAGEABLE = 1  # CUpti_ActivityMemoryKind of memory that the system may move


def _find(subject: Subject) -> Evidence | None:
    waits = waiting_calls(subject)
    return _on_device(subject, waits) if len(waits) else _on_host(subject)


def waiting_calls(subject: Subject) -> Values:
    """Rows of runtime calls that return only when the device has finished."""
    calls = np.asarray(subject.events["kind"] == EventKind.RUNTIME_CALL)
    return np.flatnonzero(calls & subject.name_contains(*_WAITS) & ~subject.name_contains("Async"))


def _on_device(subject: Subject, waits: Values) -> Evidence | None:
    """Evidence from device work: after a wait, the device is idle until the next launch."""
    start, end = subject.device_work
    idle = np.zeros(len(waits), dtype=np.int64)
    if len(start):
        busy_until = np.maximum.accumulate(end)
        after = np.searchsorted(start, subject.end_ns[waits])
        known = (after > 0) & (after < len(start))
        before = np.maximum(subject.start_ns[waits[known]], busy_until[after[known] - 1])
        idle[known] = np.maximum(start[after[known]] - before, 0)
    # After the last launch, the program only waits for its end.
    held_up = (subject.outermost_operator[waits] >= 0) | (idle > 0)
    waits, idle = waits[held_up], idle[held_up]
    if not len(waits):
        return None
    around = subject.outermost_operator[waits]
    around = np.where(around >= 0, around, waits)
    took = (subject.end_ns - subject.start_ns)[waits]
    copies = _pageable_copies(subject, around)
    copying = subject.time_ns(copies)
    copied = (
        f" {len(copies):,} copies used pageable memory, which the driver copies a second time "
        f"while the host waits: {time_text(copying)}."
        if len(copies)
        else ""
    )
    # Search for the true elements of a mask, which torch.where does not need.
    looks = np.flatnonzero(subject.named("aten::nonzero"))
    looks = looks[np.isin(subject.outermost_operator[looks], around)]
    looking = int((subject.duration_ns - subject.host_ns)[looks].sum())
    idled = int(idle[np.unique(around, return_index=True)[1]].sum())
    return Evidence(
        events=around,
        event_time_ns=took,
        time_ns=int(took.sum()) + copying,
        explanation=(
            f"{len(waits):,} times an operator ({_most_frequent(subject, around)}) waited for "
            f"the device, {_each(took)}. Python launches no work during the wait, so the device "
            f"becomes idle.{copied}"
        ),
        saved_ns=idled + copying + looking if len(start) else None,
        saved_by=(
            (
                "the idle time of the device after each wait"
                if len(start)
                else "unknown: device work was not recorded"
            )
            + ("; the host's part of copies from pageable memory" if len(copies) else "")
            + ("; finding the true elements of a mask" if len(looks) else "")
        ),
        saves=Saves.WALL,
    )


def _pageable_copies(subject: Subject, around: Values) -> Values:
    """Rows of calls in these operators that copy from or to pageable memory."""
    gpu = subject.trace.table("gpu")
    copied = (gpu["kind"] == GpuKind.COPY) & (gpu["launch"] >= 0)
    copied &= (gpu["source_memory"] == _PAGEABLE) | (gpu["destination_memory"] == _PAGEABLE)
    calls = np.unique(gpu["launch"][copied]).astype(np.int64)
    return calls[np.isin(subject.outermost_operator[calls], around)]


def _on_host(subject: Subject) -> Evidence | None:
    reads = np.flatnonzero(subject.named(*_READS))
    where = subject.tensor_argument(0)[reads]
    on_device = subject.tensor_column("device_type", where) == CUDA
    has_device = bool(on_device.any())
    around = np.unique(subject.outermost_operator[reads[on_device] if has_device else reads])
    around = around[around >= 0]
    if not has_device:
        # Without a device, other operators that read a value also do other work.
        around = around[subject.named(*_READS, *_ASKED)[around]]
    around = around[~subject.within(subject.is_training)[around]]
    total = subject.time_ns(around)
    if len(around) < 2 or (total < _WORTH_SAYING * subject.wall_ns and not has_device):
        return None
    return Evidence(
        events=around,
        explanation=(
            f"{len(around):,} times ({_most_frequent(subject, around)}) Python waited for the "
            f"value of a tensor, {_each(subject.duration_ns[around])}: {subject.share(total)} "
            "of the time. On a GPU each of these calls waits until the device has finished."
        ),
        saved_ns=total,
        saved_by="the time in these calls",
        status=None if has_device else Status.OPERATORS,
    )


def _each(took: Values) -> str:
    return f"{time_text(int(np.mean(took)))} each on average"


def _most_frequent(subject: Subject, rows: Values) -> str:
    names, count = np.unique(subject.events["name"][rows], return_counts=True)
    return ", ".join(subject.trace.names[row] for row in names[np.argsort(-count)][:3])


SYNCHRONISATION = Pattern(
    id="implicit-synchronisation",
    status=Status.DEVICE_IDLE,
    title="Python waits for tensor values, as in .item()",
    advice=(
        "Keep losses and metrics as tensors and read them every N steps (total += "
        "loss.detach(); total.item() at the end); replace `if tensor:` and boolean indexing by "
        "torch.where; keep torch.cuda.synchronize() out of loops; copy with non_blocking=True, "
        "to the device from pinned memory (pin_memory=True in DataLoader)."
    ),
    find=_find,
    link="https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization",
)
