"""Time by operator, part of a step and module; and by line of the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opscope import _native
from opscope.analysis.memory.counters import memory_was_recorded
from opscope.columns.labels import device_name
from opscope.columns.row_groups import RowGroups, group_rows
from opscope.columns.trace_data import TraceData
from opscope.findings.subject import Subject
from opscope.timeline.arrays import Values
from opscope.timeline.module_attribution import attribute_to_modules
from opscope.timeline.phases import NO_PHASE, PHASE_NAMES, find_phases
from opscope.timeline.signatures import group_sums, medians
from opscope.timeline.steps import program_steps
from opscope.timeline.tree.event_tree import event_arrays, event_tree, numbers_of_threads
from opscope.timeline.tree.line_nesting import own_times

Columns = dict[str, Any]

HOST = "cpu"
_FEWEST = -1
_KEYS = ("name", "phase", "path")


def operator_columns(trace: TraceData) -> Columns:
    """The columns of ``rollup_operators`` and of ``rollup_operator_details``, without whose they
    are: rows are the same."""
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


def line_columns(subject: Subject) -> Columns:
    """The columns of ``rollup_lines``, without whose they are."""
    trace, sites = subject.recorded, subject.sites
    frames, names = trace.table("frames"), trace.names
    frame, line, count, own_ns = (
        _native.line_sums(*sites.at, own_times(trace))
        if sites.known
        else np.zeros((4, 0), dtype=np.int64)
    )
    # Frames of one function may be several: of code that was made again.
    file, function = (frames[name][frame] for name in ("file", "function"))
    found = group_rows(file, line, function)
    return {
        "file": [names[row] for row in found.columns[0].tolist()],
        "line": found.columns[1],
        "function": [names[row] for row in found.columns[2].tolist()],
        "count": group_sums(count, found.group, len(found)),
        "self_ns": group_sums(own_ns, found.group, len(found)),
    }


def _of_host(trace: TraceData) -> Columns:
    events, tree = trace.events, event_tree(trace)
    modules = attribute_to_modules(trace)
    sums = _native.operator_sums(
        event_arrays(trace),
        len(numbers_of_threads(trace)),
        find_phases(trace).phase,
        modules.path,
        np.ascontiguousarray(tree.start_ns),
        np.ascontiguousarray(events["duration_ns"]),
        np.ascontiguousarray(tree.duration_ns),
        own_times(trace),
        tree.by_start,
        program_steps(trace)[0].in_order()[:2],
        _allocations(trace),
    )
    amounts = {name: values for name, values in sums.items() if name not in _KEYS}
    return {
        **_texts(trace, *(sums[name] for name in _KEYS)),
        "device": [HOST] * len(sums["name"]),
        **amounts,
    }


def _of_devices(trace: TraceData) -> Columns:
    """Columns of device work, with the module and phase of its launch."""
    gpu = trace.table("gpu")
    launch = gpu["launch"].astype(np.int64)
    device = gpu["device_type"].astype(np.int64) * 256 + gpu["device_index"]
    found = _groups(trace, launch, gpu["name"], device)
    pairs = [divmod(code + 128, 256) for code in found.columns[3].tolist()]
    took_ns = group_sums(gpu["duration_ns"], found.group, len(found))
    return {
        **_texts(trace, *found.columns[:3]),
        "device": [device_name(kind, index - 128) for kind, index in pairs],
        "count": found.count,
        "total_ns": took_ns,
        "self_ns": took_ns,
        **_of_steps(trace, found, gpu["start_ns"], gpu["duration_ns"]),
        "allocated_bytes": np.full(len(found), -1, dtype=np.int64),
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


def _of_steps(trace: TraceData, found: RowGroups, start_ns: Values, own_ns: Values) -> Columns:
    """Number of steps with each group, and its own time in these steps."""
    groups = len(found)
    step = program_steps(trace)[0].row_at(start_ns)
    inside = np.flatnonzero(step >= 0)
    cells = group_rows(found.group[inside], step[inside])
    of = cells.columns[0]
    times = group_sums(own_ns[inside], cells.group, len(cells))
    least, most = np.full((2, groups), _FEWEST, dtype=np.int64)
    least[of] = np.iinfo(np.int64).max
    np.minimum.at(least, of, times)
    np.maximum.at(most, of, times)
    steps = np.bincount(of, minlength=groups)
    middle = medians(times, of, groups) if len(times) else most.copy()
    return {
        "steps": steps,
        "step_min_ns": least,
        "step_median_ns": np.where(steps > 0, middle, _FEWEST),
        "step_max_ns": most,
    }


def _allocations(trace: TraceData) -> _native.AllocationArrays | None:
    """Event, action and size of each allocation; None where memory was not recorded."""
    if not memory_was_recorded(trace):
        return None
    table = trace.table("allocations")
    event, action, size = (
        np.ascontiguousarray(table[name]) for name in ("event", "action", "size_bytes")
    )
    return event, action, size
