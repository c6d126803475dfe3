"""The page of a memory snapshot of torch: its memory tab, and nothing else."""

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
    """The page as text; time 0 is the first allocation or free in the record of a device."""
    report, columns = gather(TraceData({}, Names.from_strings([])), title)
    names = [f"cuda:{one.index}" for one in snapshot.devices]
    found = [snapshot_memory(snapshot, name) for name in names]
    report["memory"] = [_device(one) for one in found]
    report["run"]["duration"] = max(int(1000 * one.time_us.max(initial=0)) for one in found)
    report["period"]["to"] = max(report["run"]["duration"], 1)
    report["verdict"] = []
    return page_of(report, columns, is_served)


def _device(found: SnapshotMemory) -> dict[str, Any]:
    points = found.timeline()
    total = [point["bytes"] for point in points]
    is_known = found.peak_event >= 0
    return {
        "device": device_title(found.device),
        "time": [1000 * point["time_us"] for point in points],
        "total": total,
        "byCategory": None,
        "byPhase": {"names": ["in use"], "bytes": [total]},
        "uncategorised": "",
        "peakBytes": found.peak_bytes,
        "peakTime": 1000 * int(found.time_us[found.peak_event]) if is_known else 0,
        "beforeBytes": found.before_bytes,
        "groups": {
            **_NO_GROUPS,
            "line": groups_json(found.at_peak),
            "end": groups_json(found.at_end),
        },
        "stacks": groups_json(found.stacks, MOST_STACKS),
        "blocks": [],
    }
