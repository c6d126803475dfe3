"""Memory that is taken and given back over and over."""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import bytes_text, time_text
from opscope.columns.schema import AllocationAction
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.status import Status
from opscope.findings.subject import CUDA, HOST, Subject

_MAKERS = ("aten::empty", "aten::empty_strided", "aten::resize_")
_LARGE = 1 << 17
"""glibc asks the kernel for blocks from 128 KiB on, and gives them back when they are freed."""

_WORTH_SAYING = 0.005


def _find_churn(subject: Subject) -> Evidence | None:
    table = subject.trace.table("allocations")
    taken = (table["action"] == AllocationAction.ALLOCATE) & (table["event"] >= 0)
    # Of a device's memory torch keeps what is freed, and hands it out again at once.
    taken &= (table["size_bytes"] >= _LARGE) & (table["device_type"] == HOST)
    event = table["event"][taken]
    makers = np.unique(event[subject.named(*_MAKERS)[event]])
    if len(makers) < 2:
        return None
    took = subject.operator_self_ns[makers]
    total, size = int(took.sum()), int(table["size_bytes"][taken].sum())
    return Evidence(
        events=makers.astype(np.int64),
        event_time_ns=took,
        explanation=(
            f"{len(makers):,} blocks of {bytes_text(_LARGE)} or more were allocated, "
            f"{bytes_text(size)} in total; the allocations took {time_text(total)}. On the CPU, "
            "the kernel zeroes each page of a new block at its first write, which also slows "
            "the operators that write it."
        ),
        saved_ns=total,
        saved_by="the operators that only allocate; first writes to new pages are not included",
    )


def _find_device_growth(subject: Subject) -> Evidence | None:
    """Allocations during which the device's pool grew: each asked the driver, which is slow."""
    table = subject.trace.table("allocations")
    on_device = np.flatnonzero((table["device_type"] == CUDA) & (table["event"] >= 0))
    if len(on_device) < 2:
        return None
    device = table["device_index"][on_device]
    by_device = on_device[np.argsort(device, kind="stable")]
    reserved, index = table["total_reserved_bytes"][by_device], table["device_index"][by_device]
    grew = np.append(False, (np.diff(reserved) > 0) & (np.diff(index) == 0))
    events = np.unique(table["event"][by_device[grew]]).astype(np.int64)
    took = subject.operator_self_ns[events]
    total = int(took.sum())
    if len(events) < 2:
        return None
    return Evidence(
        events=events,
        event_time_ns=took,
        explanation=(
            f"The GPU's memory pool grew {len(events):,} times, {time_text(total)} in total. "
            "Each time the driver allocates memory and waits for the device."
        ),
        saved_ns=total,
        saved_by="self time of the operators during which the pool grew",
    )


CHURN = Pattern(
    id="allocation-churn",
    title="Large memory blocks are allocated repeatedly",
    advice=(
        "Reuse tensors for results (out=, in-place operators, preallocated buffers). On the "
        "CPU, an allocator that keeps large blocks helps without code changes: LD_PRELOAD "
        "jemalloc or tcmalloc, or MALLOC_MMAP_THRESHOLD_=1073741824 "
        "MALLOC_TRIM_THRESHOLD_=1073741824 with glibc."
    ),
    find=_find_churn,
    needs=(Needs.SHAPES, Needs.MEMORY),
    worth_saying=_WORTH_SAYING,
)

DEVICE_GROWTH = Pattern(
    id="device-memory-growth",
    status=Status.MEMORY,
    title="The GPU's memory pool keeps growing",
    advice=(
        "Start with the largest batch, so that later ones fit into the pool; set "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; remove torch.cuda.empty_cache()."
    ),
    find=_find_device_growth,
    needs=(Needs.DEVICE, Needs.MEMORY),
    worth_saying=_WORTH_SAYING,
)
