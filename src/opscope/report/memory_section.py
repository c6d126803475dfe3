"""The memory panel of the report: memory over time, and memory at the peak."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from opscope.analysis.memory.counters import where_recorded
from opscope.analysis.memory.life_categories import PeakGroup, by_function, group_blocks
from opscope.analysis.memory.over_time import MemoryOverTime, MemoryParts, memory_over_time
from opscope.analysis.memory.peak import NO_LINE, NO_STACK, PeakMemory, explain_peak
from opscope.columns.labels import device_title
from opscope.columns.trace_data import TraceData
from opscope.report.packing import shown
from opscope.report.span_section import Spans
from opscope.timeline.arrays import Values
from opscope.timeline.detail import rows_in_detail
from opscope.timeline.phases import PHASE_NAMES, find_phases

MOST_BLOCKS = 200
MOST_GROUPS = 50
MOST_STACKS = 500


def memory_section(trace: TraceData, spans: Spans) -> list[dict[str, Any]]:
    """One entry per device; empty if no memory was recorded."""
    part = where_recorded(trace)
    rows = np.arange(len(trace.events)) if part is trace else rows_in_detail(trace)
    position = np.append(spans.position[rows], -1)
    return [_device(part, spans, position, memory) for memory in memory_over_time(part)]


def _device(
    trace: TraceData, spans: Spans, position: Values, memory: MemoryOverTime
) -> dict[str, Any]:
    """Entry of one device; ``position``: index among the spans of each event of ``trace``."""
    peak = explain_peak(trace, memory.peak)
    allocation = peak.blocks.allocation
    event = np.append(trace.table("allocations")["event"], -1)[allocation].astype(np.int64)
    return {
        "device": device_title(memory.device),
        "time": np.maximum(memory.time_ns - spans.start_ns, 0).tolist(),
        "total": memory.total_bytes.tolist(),
        "byCategory": _parts(memory.by_category),
        "byPhase": _parts(memory.by_phase),
        "uncategorised": shown(memory.uncategorised_because),
        "peakBytes": peak.total_bytes,
        "peakTime": max(peak.time_ns - spans.start_ns, 0),
        "beforeBytes": peak.before_bytes,
        "groups": {
            "category": groups_json(peak.by_category) if memory.by_category else [],
            "operator": groups_json(peak.by_operator),
            "module": groups_json(peak.by_module) if len(trace.table("python_calls")) else [],
            "function": groups_json(by_function(peak.by_stack)) if _has_stacks(peak) else [],
            "phase": groups_json(_phases(trace, peak, event)),
            "line": groups_json(peak.by_line) if _has_lines(peak) else [],
            "end": [],
        },
        "stacks": groups_json(peak.by_stack, MOST_STACKS) if _has_stacks(peak) else [],
        "blocks": _blocks(spans.start_ns, position, peak, event),
    }


def _parts(parts: MemoryParts | None) -> dict[str, Any] | None:
    if parts is None:
        return None
    return {"names": parts.names, "bytes": parts.size_bytes.T.tolist()}


def groups_json(groups: Iterable[PeakGroup], most: int = MOST_GROUPS) -> list[dict[str, Any]]:
    """The largest groups, for JSON."""
    return [
        {
            "name": shown(group.name),
            "bytes": group.size_bytes,
            "blocks": group.blocks,
            "before": group.before_bytes,
        }
        for group in list(groups)[:most]
    ]


def _has_stacks(peak: PeakMemory) -> bool:
    return any(group.name != NO_STACK and ";" in group.name for group in peak.by_stack)


def _has_lines(peak: PeakMemory) -> bool:
    return any(group.name != NO_LINE for group in peak.by_line)


def _phases(trace: TraceData, peak: PeakMemory, event: Values) -> tuple[PeakGroup, ...]:
    """Groups by phase of the allocation; earlier memory is grouped by operator."""
    phase = np.append(find_phases(trace).phase, -1)[event].tolist()
    is_before = peak.blocks.allocated_ns < 0
    names = (
        operator if row < 0 else PHASE_NAMES[number] if number >= 0 else "outside operators"
        for row, number, operator in zip(
            peak.blocks.allocation.tolist(), phase, peak.blocks.operator, strict=True
        )
    )
    return group_blocks(names, peak.blocks.size_bytes, is_before, peak.unseen_bytes)


def _blocks(
    start_ns: int, position: Values, peak: PeakMemory, event: Values
) -> list[dict[str, Any]]:
    blocks = peak.blocks
    entries = []
    for row in range(min(MOST_BLOCKS, len(blocks))):
        allocated, freed = int(blocks.allocated_ns[row]), int(blocks.freed_ns[row])
        entries.append(
            {
                "bytes": int(blocks.size_bytes[row]),
                "time": allocated - start_ns if allocated >= 0 else -1,
                "until": freed - start_ns if freed >= 0 else -1,
                "span": int(position[event[row]]),
                "name": shown(blocks.operator[row]),
                "category": blocks.category[row],
                "module": shown(blocks.module[row]),
            }
        )
    return entries
