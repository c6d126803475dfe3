"""Memory in use over time, and what was alive at the peak."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.analysis.listing import Listing
from opscope.analysis.memory_over_time import MemoryOverTime, memory_over_time
from opscope.analysis.peak_memory import memory_at_peak
from opscope.analysis.phases import PHASE_NAMES, find_phases
from opscope.errors import UsageError
from opscope.report.shown_text import shown
from opscope.report.span_section import Spans
from opscope.trace.schema import EventKind
from opscope.trace.trace import Trace
from opscope.tree.ancestry import nearest_ancestor

MOST_BLOCKS = 200
MOST_GROUPS = 50
ENGINE_PREFIX = "autograd::engine::evaluate_function: "


def memory_section(trace: Trace, listing: Listing, spans: Spans) -> list[dict[str, Any]]:
    """One entry per device; empty if no memory was recorded."""
    return [_device(trace, listing, spans, device) for device in memory_over_time(trace)]


def _device(trace: Trace, listing: Listing, spans: Spans, memory: MemoryOverTime) -> dict[str, Any]:
    size = trace.table("allocations")["size_bytes"][memory.alive]
    event = trace.table("allocations")["event"][memory.alive].astype(np.int64)
    holders = _holders(trace, listing, event)
    return {
        "device": memory.device,
        "time": (memory.time_ns - spans.start_ns).tolist(),
        "total": memory.total_bytes.tolist(),
        "categories": memory.categories,
        "categoryBytes": memory.category_bytes.T.tolist(),
        "peakBytes": memory.peak_bytes,
        "peakTime": memory.peak_ns - spans.start_ns,
        "knownAtPeak": int(size.sum()),
        "groups": {
            "category": _groups(_purposes(trace, memory), size),
            "operator": _groups(holders, size),
            "phase": _groups(_phases(trace, event), size),
            "module": _groups(_modules(trace, listing, event), size),
        },
        "blocks": _blocks(trace, spans, memory, holders),
    }


def _groups(names: list[str], size: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    """Bytes and blocks by name, largest first; none if nothing has a name."""
    if not any(names):
        return []
    totals: dict[str, list[int]] = {}
    for name, bytes_ in zip(names, size.tolist(), strict=True):
        total = totals.setdefault(name, [0, 0])
        total[0] += bytes_
        total[1] += 1
    ranked = sorted(totals.items(), key=lambda item: -item[1][0])[:MOST_GROUPS]
    return [{"name": shown(name), "bytes": b, "blocks": n} for name, (b, n) in ranked]


def _purposes(trace: Trace, memory: MemoryOverTime) -> list[str]:
    """What each block that was alive was for: activation, gradient, ...; empty if unknown."""
    nothing = [""] * len(memory.alive)
    if not len(trace.table("tensors")):
        return nothing
    try:
        peak = memory_at_peak(trace, memory.device.lower().replace(" ", ":"))
    except UsageError:
        return nothing
    known = dict(zip(peak.blocks.allocation.tolist(), peak.blocks.category, strict=True))
    return [known.get(row, "") for row in memory.alive.tolist()]


def _phases(trace: Trace, event: npt.NDArray[np.int64]) -> list[str]:
    phase = find_phases(trace).phase
    return [PHASE_NAMES[phase[e]] if e >= 0 and phase[e] >= 0 else "" for e in event]


def _modules(trace: Trace, listing: Listing, event: npt.NDArray[np.int64]) -> list[str]:
    is_module = trace.events["kind"] == EventKind.MODULE_CALL
    if not is_module.any():
        return []
    around = nearest_ancestor(listing.tree.parent, is_module)
    module = [around[e] if e >= 0 else -1 for e in event]
    return [listing.texts[listing.label[m]] if m >= 0 else "" for m in module]


def _holders(trace: Trace, listing: Listing, event: npt.NDArray[np.int64]) -> list[str]:
    """The outermost operator around each event: what the program called. Empty outside all.

    The operator that allocates is nearly always ``aten::empty``, which explains nothing.
    """
    parent = listing.tree.parent
    is_operator = trace.events["kind"] == EventKind.OPERATOR
    outermost = is_operator & (nearest_ancestor(parent, is_operator) < 0)
    around = np.where(outermost, np.arange(len(parent)), nearest_ancestor(parent, outermost))
    texts = [text.removeprefix(ENGINE_PREFIX) for text in listing.texts]
    holder = [around[e] if e >= 0 else -1 for e in event]
    return [
        texts[listing.label[h]] if h >= 0 else texts[listing.label[e]] if e >= 0 else ""
        for h, e in zip(holder, event, strict=True)
    ]


def _blocks(
    trace: Trace, spans: Spans, memory: MemoryOverTime, holders: list[str]
) -> list[dict[str, Any]]:
    table = trace.table("allocations")
    blocks = []
    for row, until, holder in zip(
        memory.alive[:MOST_BLOCKS].tolist(), memory.alive_until_ns.tolist(), holders, strict=False
    ):
        event = int(table["event"][row])
        blocks.append(
            {
                "bytes": int(table["size_bytes"][row]),
                "time": int(table["time_ns"][row]) - spans.start_ns,
                "until": until - spans.start_ns if until >= 0 else -1,
                "span": int(spans.position[event]) if event >= 0 else -1,
                "name": shown(holder),
            }
        )
    return blocks
