"""Time by operator, phase and module; and by line of the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opscope.analysis.memory.counters import memory_was_recorded
from opscope.analysis.sites import Sites
from opscope.columns.codes import AllocationAction, EventKind
from opscope.columns.labels import device_name
from opscope.columns.row_groups import RowGroups, group_rows
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Values
from opscope.timeline.module_attribution import attribute_to_modules
from opscope.timeline.phases import NO_PHASE, PHASE_NAMES, find_phases
from opscope.timeline.signatures import group_sums, medians
from opscope.timeline.steps import program_steps
from opscope.timeline.tree.event_tree import event_tree
from opscope.timeline.tree.line_nesting import outermost_of, own_times

Columns = dict[str, Any]

HOST = "cpu"
_FEWEST = -1


def operator_columns(trace: TraceData) -> Columns:
    """Columns of ``rollup_operators`` and ``rollup_operator_details``, without the process."""
    host = _of_host(trace)
    return joined([host, _of_devices(trace)]) if len(trace.table("gpu")) else host


def joined(parts: Sequence[Columns]) -> Columns:
    """Columns of several parts, one after the other."""
    return {
        name: [value for part in parts for value in part[name]]
        if isinstance(values, list)
        else np.concatenate([part[name] for part in parts])
        for name, values in parts[0].items()
    }


def line_columns(sites: Sites) -> Columns:
    """Columns of ``rollup_lines``, without the process."""
    trace = sites.listing.trace
    frames, names = trace.table("frames"), trace.names
    frame, line = sites.at
    events = np.flatnonzero(frame >= 0)
    # A function may have several frames, of code that was made again.
    file, function = (frames[name][frame[events]] for name in ("file", "function"))
    groups = group_rows(file, line[events], function)
    return {
        "file": [names[row] for row in groups.columns[0].tolist()],
        "line": groups.columns[1],
        "function": [names[row] for row in groups.columns[2].tolist()],
        "count": groups.count,
        "self_ns": group_sums(own_times(trace)[events], groups.group, len(groups)),
    }


def _of_host(trace: TraceData) -> Columns:
    """Columns of host operators; for nested calls of one row, the time of the outer call counts."""
    events = np.flatnonzero(trace.events["kind"] == EventKind.OPERATOR)
    groups = _groups(trace, events, trace.events["name"][events])
    own_ns, took_ns = own_times(trace)[events], trace.events["duration_ns"][events]
    outer = outermost_of(trace, events, groups.group)
    return {
        **_texts(trace, *groups.columns),
        "device": [HOST] * len(groups),
        "count": groups.count,
        "total_ns": group_sums(np.where(outer, took_ns, 0), groups.group, len(groups)),
        "self_ns": group_sums(own_ns, groups.group, len(groups)),
        **_of_steps(trace, groups, event_tree(trace).start_ns[events], own_ns),
        "allocated_bytes": _allocated_bytes(trace, events, groups),
    }


def _of_devices(trace: TraceData) -> Columns:
    """Columns of device work, with the module and phase of its launch."""
    gpu = trace.table("gpu")
    launch = gpu["launch"].astype(np.int64)
    device = gpu["device_type"].astype(np.int64) * 256 + gpu["device_index"]
    groups = _groups(trace, launch, gpu["name"], device)
    pairs = [divmod(code + 128, 256) for code in groups.columns[3].tolist()]
    took_ns = group_sums(gpu["duration_ns"], groups.group, len(groups))
    return {
        **_texts(trace, *groups.columns[:3]),
        "device": [device_name(kind, index - 128) for kind, index in pairs],
        "count": groups.count,
        "total_ns": took_ns,
        "self_ns": took_ns,
        **_of_steps(trace, groups, gpu["start_ns"], gpu["duration_ns"]),
        "allocated_bytes": np.full(len(groups), -1, dtype=np.int64),
    }


def _groups(trace: TraceData, events: Values, name: Values, *more: Values) -> RowGroups:
    """Rows grouped by name, phase and module; -1 for no event."""
    phase = np.append(find_phases(trace).phase, NO_PHASE)[events]
    path = np.append(attribute_to_modules(trace).path, -1)[events]
    return group_rows(name, phase, path, *more)


def _texts(trace: TraceData, name: Values, phase: Values, path: Values) -> Columns:
    modules = attribute_to_modules(trace)
    return {
        "name": [trace.names[row] for row in name.tolist()],
        "phase": [PHASE_NAMES[one] if one >= 0 else "" for one in phase.tolist()],
        "module": [modules.text(one) if one >= 0 else "" for one in path.tolist()],
    }


def _of_steps(trace: TraceData, row_groups: RowGroups, start_ns: Values, own_ns: Values) -> Columns:
    """Number of steps with each group, and its own time in these steps."""
    count = len(row_groups)
    step = program_steps(trace)[0].row_at(start_ns)
    inside = np.flatnonzero(step >= 0)
    cells = group_rows(row_groups.group[inside], step[inside])
    group = cells.columns[0]
    times = group_sums(own_ns[inside], cells.group, len(cells))
    shortest, longest = np.full((2, count), _FEWEST, dtype=np.int64)
    shortest[group] = np.iinfo(np.int64).max
    np.minimum.at(shortest, group, times)
    np.maximum.at(longest, group, times)
    steps = np.bincount(group, minlength=count)
    middle = medians(times, group, count) if len(times) else longest.copy()
    return {
        "steps": steps,
        "step_min_ns": shortest,
        "step_median_ns": np.where(steps > 0, middle, _FEWEST),
        "step_max_ns": longest,
    }


def _allocated_bytes(trace: TraceData, events: Values, groups: RowGroups) -> Values:
    """Bytes allocated by the events of each group; -1 if memory was not recorded."""
    if not memory_was_recorded(trace):
        return np.full(len(groups), -1, dtype=np.int64)
    table = trace.table("allocations")
    group = np.full(len(trace.events) + 1, -1, dtype=np.int64)  # last: no event
    group[events] = groups.group
    group_of_row = group[table["event"]]
    made = (table["action"] == AllocationAction.ALLOCATE) & (group_of_row >= 0)
    return group_sums(table["size_bytes"][made], group_of_row[made], len(groups))
