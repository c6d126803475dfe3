"""The page of a memory snapshot of torch, which has only the memory tab."""

from __future__ import annotations

from typing import Any

from opscope.analysis.memory.snapshot import SnapshotMemory, snapshot_memory
from opscope.columns.labels import device_title
from opscope.columns.names import Names
from opscope.columns.trace_data import TraceData
from opscope.report.memory_section import MOST_STACKS, groups_json
from opscope.report.page import page_of
from opscope.report.payload import gather
from opscope.storage.snapshot import MemorySnapshot

_NO_GROUPS: dict[str, list[Any]] = {
    by: [] for by in ("category", "operator", "module", "function", "phase")
}


def snapshot_html(snapshot: MemorySnapshot, title: str, is_served: bool = False) -> str:
    """The page as text; time 0 of a device is its first recorded allocation or free."""
    report, columns = gather(TraceData({}, Names.from_strings([])), title)
    names = [f"cuda:{one.index}" for one in snapshot.devices]
    memories = [snapshot_memory(snapshot, name) for name in names]
    report["memory"] = [_device(one) for one in memories]
    report["run"]["duration"] = max(int(1000 * one.time_us.max(initial=0)) for one in memories)
    report["period"]["to"] = max(report["run"]["duration"], 1)
    report["verdict"] = []
    return page_of(report, columns, is_served)


def _device(memory: SnapshotMemory) -> dict[str, Any]:
    points = memory.timeline()
    total = [point["bytes"] for point in points]
    is_known = memory.peak_event >= 0
    return {
        "device": device_title(memory.device),
        "time": [1000 * point["time_us"] for point in points],
        "total": total,
        "byCategory": None,
        "byPhase": {"names": ["in use"], "bytes": [total]},
        "uncategorised": "",
        "peakBytes": memory.peak_bytes,
        "peakTime": 1000 * int(memory.time_us[memory.peak_event]) if is_known else 0,
        "beforeBytes": memory.before_bytes,
        "groups": {
            **_NO_GROUPS,
            "line": groups_json(memory.at_peak),
            "end": groups_json(memory.at_end),
        },
        "stacks": groups_json(memory.stacks, MOST_STACKS),
        "blocks": [],
    }
