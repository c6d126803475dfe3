"""A pool of device memory that keeps growing."""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import time_text
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.status import Status
from opscope.findings.subject import CUDA, Subject

_WORTH_SAYING = 0.005


def _find_device_growth(subject: Subject) -> Evidence | None:
    """Allocations that grew the device's memory pool, each with a slow call of the driver."""
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
