"""The tables of the page as columns: operators, modules and source lines."""

from __future__ import annotations

from typing import Any

import numpy as np

from opscope.analysis.flops import FlopCounts, count_flops
from opscope.analysis.module_times import ModuleTimes, module_times
from opscope.analysis.source_lines import SourceLines, source_lines
from opscope.analysis.torch_listing.averages import Averages, key_averages
from opscope.analysis.torch_listing.rows import ListedRows, RowSource
from opscope.base.program_files import is_library
from opscope.columns.location import line_texts
from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData
from opscope.report.packing import shown
from opscope.report.span_section import GPU_KIND, page_kinds, shapes_text
from opscope.timeline.arrays import Flags, Values
from opscope.timeline.listing import OwnListing, TorchListing
from opscope.timeline.module_attribution import attribute_to_modules
from opscope.timeline.tree.frame_text import PYTHON_KINDS, own_texts
from opscope.timeline.waits import TimeKind, time_kind

MOST_ROWS = 3000
"""Maximum number of rows of a table: those with most self time."""

_MOST_CALLS = 32
"""Calls of a source line that the page can show on the timeline."""

_RANKED_KINDS = (TimeKind.WORK, TimeKind.WAITING)

Section = dict[str, Any]


def operator_section(
    listing: OwnListing, rows: ListedRows, flops: FlopCounts | None, by_shape: bool = False
) -> Section | None:
    """Averages by name, or by name and argument shapes: None if no shapes were recorded."""
    if by_shape and flops is None:
        return None
    trace = listing.trace
    averages = key_averages(trace, group_by_input_shape=by_shape, listing=listing, rows=rows)
    return _operators(trace, averages, flops)


def recorded_flops(trace: TraceData) -> FlopCounts | None:
    """FLOPs for both sections; None if no shapes were recorded."""
    return count_flops(trace) if len(trace.table("tensors")) else None


def _operators(trace: TraceData, averages: Averages, flops: FlopCounts | None) -> Section:
    """Rows with most self time; Python functions have a separate limit of rows."""
    kind = _kinds(trace, averages)
    weight = np.maximum(averages.quantity("cpu_self_ns"), averages.quantity("device_self_ns"))
    times = [time_kind(name) for name in averages.names]
    ranks = np.array([time in _RANKED_KINDS for time in times], dtype=np.bool_)
    is_python = np.isin(kind, PYTHON_KINDS)
    rows = np.concatenate([_top(weight, ranks & ~is_python), _top(weight, ranks & is_python)])
    columns: dict[str, Any] = {
        "name": [shown(averages.names[row]) for row in rows],
        "kind": kind[rows].tolist(),
        "waits": [times[row] is TimeKind.WAITING for row in rows],
        "calls": averages.count[rows].tolist(),
    }
    for name, quantity in (
        ("self", "cpu_self_ns"),
        ("total", "cpu_total_ns"),
        ("deviceSelf", "device_self_ns"),
        ("deviceTotal", "device_total_ns"),
        ("memorySelf", "cpu_self_memory_bytes"),
        ("deviceMemorySelf", "device_self_memory_bytes"),
        ("flops", "flops"),
    ):
        values = averages.quantity(quantity)
        if values.any():
            columns[name] = values[rows].tolist()
    if averages.input_shapes is not None:
        columns["shapes"] = [shapes_text(averages.input_shapes[row]) for row in rows]
    section = _section(columns, int(ranks.sum()))
    if flops is not None:
        section["flopsCoverage"] = flops.coverage
    return section


def _kinds(trace: TraceData, averages: Averages) -> Values:
    """EventKind of the first event of each group, or ``GPU_KIND`` plus the kind of activity."""
    source, row = averages.rows.source[averages.first], averages.rows.row[averages.first]
    kind = np.zeros(len(row), dtype=np.int64)
    is_event, is_gpu = source == RowSource.EVENT, source == RowSource.GPU
    kind[is_event] = page_kinds(trace.events["kind"][row[is_event]], other=-1)
    kind[is_gpu] = trace.table("gpu")["kind"][row[is_gpu]].astype(np.int64) + GPU_KIND
    return kind


def module_section(trace: TraceData, listing: TorchListing) -> Section | None:
    """Modules by path; None if no module calls were recorded."""
    times: ModuleTimes = module_times(trace, listing)
    if not len(times):
        return None
    rows, labels = _top(times.self_ns + times.backward_ns), _module_labels(trace)
    columns: dict[str, Any] = {
        "name": [shown(".".join(times.paths[row])) for row in rows],
        "class": [shown(times.classes[row]) for row in rows],
        "label": [shown(labels.get(row, "")) for row in rows],
        "calls": times.calls[rows].tolist(),
        "self": times.self_ns[rows].tolist(),
        "total": times.total_ns[rows].tolist(),
        "backward": times.backward_ns[rows].tolist(),
    }
    if times.device_ns.any():
        columns["deviceTotal"] = times.device_ns[rows].tolist()
    return _section(columns, len(times))


def _module_labels(trace: TraceData) -> dict[int, str]:
    """Label of each module's calls on the timeline, by the module's path."""
    rows = np.flatnonzero(trace.events["kind"] == EventKind.MODULE_CALL)
    path, (label, texts) = attribute_to_modules(trace).path[rows], own_texts(trace)
    paths, first = np.unique(path, return_index=True)
    labels = label[rows[first]]
    return {path: texts[text] for path, text in zip(paths.tolist(), labels.tolist(), strict=True)}


def source_section(trace: TraceData, listing: TorchListing, begin_ns: int) -> Section | None:
    """Source lines, with start times of calls from them since ``begin_ns``; None if no Python
    functions were recorded."""
    kind = trace.events["kind"]
    if not ((kind == EventKind.PYTHON_CALL) | (kind == EventKind.C_CALL)).any():
        return None
    lines: SourceLines = source_lines(trace, listing)
    if not len(lines):
        return None
    rows = _top(lines.total_ns)
    places = [lines.places[row] for row in rows]
    texts = line_texts(trace)
    columns: dict[str, Any] = {
        "file": [shown(place.file) for place in places],
        "line": [place.line for place in places],
        "function": [shown(place.function) for place in places],
        "text": [shown(texts.get((place.file, place.line), "").strip()) for place in places],
        "starts": _starts(trace, lines, rows, begin_ns),
        "library": [is_library(place.file) for place in places],
        "calls": lines.calls[rows].tolist(),
        "self": lines.self_ns[rows].tolist(),
        "total": lines.total_ns[rows].tolist(),
    }
    if lines.device_ns.any():
        columns["deviceTotal"] = lines.device_ns[rows].tolist()
    return _section(columns, len(lines))


def _starts(trace: TraceData, lines: SourceLines, rows: Values, begin_ns: int) -> list[list[int]]:
    order = np.argsort(lines.line_of_call, kind="stable")
    start_ns = trace.events["start_ns"][lines.call[order]] - begin_ns
    bounds = np.searchsorted(lines.line_of_call[order], [rows, rows + 1])
    return [
        start_ns[first : min(last, first + _MOST_CALLS)].tolist()
        for first, last in bounds.T.tolist()
    ]


def _section(columns: dict[str, Any], total_rows: int) -> Section:
    return {"columns": columns, "rows": len(next(iter(columns.values()))), "allRows": total_rows}


def _top(weight: Values, chosen: Flags | None = None) -> Values:
    order = np.argsort(-weight, kind="stable")
    return (order if chosen is None else order[chosen[order]])[:MOST_ROWS]
