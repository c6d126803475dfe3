"""Rows and columns of the table of operators.

Rows are names of any kind; own times count every instant of a thread once (``OwnListing``), and
shares are of the period's time (``timeline.period``). Steps and opscope's hooks are excluded, and
waits follow after all work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope.analysis.flops import count_flops
from opscope.analysis.memory.counters import memory_was_recorded
from opscope.analysis.torch_listing.averages import Averages, key_averages
from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError
from opscope.timeline.arrays import Values
from opscope.timeline.detail import has_detail
from opscope.timeline.listing import OwnListing
from opscope.timeline.period import Period
from opscope.timeline.signatures import group_sums
from opscope.timeline.waits import TimeKind, time_kind

DEFAULT_SORT = "self_cpu_time_total"
_SORT_WITHOUT_TIMES = "count"
DEFAULT_ROWS = 15
_MOST_WAITING, _LEAST_WAITING = 3, 0.005
"""Maximum rows of waits, and their minimum share of the time."""


@dataclass(frozen=True)
class SummaryColumn:
    """One column of a summary."""

    key: str  # key in JSON and CSV header; does not change between releases
    sort_key: str  # key for ``--sort-by``; torch.profiler's name
    heading: str  # heading in tables
    unit: str  # "count", "ns", "bytes" or "flops"


COLUMNS = (
    SummaryColumn("calls", "count", "Calls", "count"),
    SummaryColumn("cpu_self_ns", "self_cpu_time_total", "Self CPU", "ns"),
    SummaryColumn("cpu_total_ns", "cpu_time_total", "CPU total", "ns"),
    SummaryColumn("cpu_mean_ns", "cpu_time", "CPU mean", "ns"),
    SummaryColumn("device_self_ns", "self_device_time_total", "Self device", "ns"),
    SummaryColumn("device_total_ns", "device_time_total", "Device total", "ns"),
    SummaryColumn("cpu_self_memory_bytes", "self_cpu_memory_usage", "Self CPU mem", "bytes"),
    SummaryColumn("cpu_memory_bytes", "cpu_memory_usage", "CPU mem", "bytes"),
    SummaryColumn(
        "device_self_memory_bytes", "self_device_memory_usage", "Self device mem", "bytes"
    ),
    SummaryColumn("device_memory_bytes", "device_memory_usage", "Device mem", "bytes"),
    SummaryColumn("flops", "flops", "FLOPs", "flops"),
)

SORT_KEYS = {column.sort_key: column for column in COLUMNS}


@dataclass(frozen=True)
class TopOperators:
    """Rows of a summary, largest first."""

    rows: list[dict[str, Any]]  # by column key, ``name`` and maybe ``input_shapes``
    waiting: list[dict[str, Any]]  # waits: a few, or all if all rows are requested
    left_out: int  # number of groups after the last row
    total_cpu_ns: int  # own time of all names, on all threads
    period: Period  # the period; shares are of its ``wall_ns``
    used: tuple[SummaryColumn, ...]  # columns in which any group has a value other than zero
    sorted_by: SummaryColumn  # column of the order


def check_sort_key(key: str) -> str:
    """Sort key for ``key``; as in torch, a kind of device may stand for "device"."""
    for device in ("cuda", "xpu"):
        key = key.replace(device, "device")
    if key not in SORT_KEYS:
        raise UsageError(
            f"A summary cannot be sorted by {key!r}. Choose one of: {', '.join(SORT_KEYS)}."
        )
    return key


def check_row_limit(limit: int) -> int:
    """``limit``, if it is a number of rows, or -1 for all; UsageError for another number."""
    if limit < 1 and limit != -1:
        raise UsageError(f"The number of rows is {limit}, but must be 1 or more, or -1 for all.")
    return limit


_CALLS = (EventKind.PYTHON_CALL, EventKind.C_CALL, EventKind.TASK_RUN)


def has_work(trace: TraceData) -> bool:
    """Whether more than garbage collections and, with detail, function calls was recorded."""
    idle = [EventKind.GC_PAUSE, *_CALLS] if has_detail(trace) else [EventKind.GC_PAUSE]
    return not np.isin(trace.events["kind"], idle).all() or len(trace.table("gpu")) > 0


def find_top_operators(
    period: Period, *, sort_by: str, row_limit: int, by_shape: bool = False
) -> TopOperators:
    """Average the events of a period by name, sort, and keep the first ``row_limit`` (-1: all)."""
    trace = period.trace
    has_shapes = len(trace.table("tensors")) > 0
    if by_shape and not has_shapes:
        raise UsageError(
            "This trace has no shapes. Record with --shapes, or omit --group-by-shape."
        )
    if not trace.has_times and SORT_KEYS[sort_by].unit == "ns":
        sort_by = _SORT_WITHOUT_TIMES
    _check_recorded(SORT_KEYS[sort_by], has_shapes, trace)
    flops = count_flops(trace) if has_shapes else None
    averages = key_averages(
        trace, group_by_input_shape=by_shape, flops=flops, listing=OwnListing(trace)
    )
    values = _values(averages)
    order = np.argsort(-values[SORT_KEYS[sort_by].key], kind="stable")
    working, waiting = (
        np.array([time_kind(name) is kind for name in averages.names], dtype=np.bool_)[order]
        for kind in (TimeKind.WORK, TimeKind.WAITING)
    )
    limit = most_waiting = None
    if row_limit != -1:
        limit, most_waiting = row_limit, _MOST_WAITING
    if row_limit != -1 and trace.has_times:
        waiting &= values["cpu_self_ns"][order] >= _LEAST_WAITING * period.wall_ns
    shown = order[working][:limit]
    columns = [column for column in COLUMNS if column.unit != "ns" or trace.has_times]
    return TopOperators(
        rows=[_row(averages, values, columns, int(group)) for group in shown],
        waiting=[_row(averages, values, columns, int(g)) for g in order[waiting][:most_waiting]],
        left_out=int(working.sum()) - len(shown),
        total_cpu_ns=int(values["cpu_self_ns"].sum()),
        period=period,
        used=tuple(column for column in columns if values[column.key].any()),
        sorted_by=SORT_KEYS[sort_by],
    )


def own_ns_of_names(trace: TraceData) -> list[tuple[str, int]]:
    """Own nanoseconds of every name of work; largest first."""
    listing = OwnListing(trace)
    is_annotation = trace.events["kind"] == EventKind.ANNOTATION
    key = (listing.group_label * 2 + is_annotation)[listing.rows]
    own_ns = group_sums(listing.self_ns[listing.rows], key, 2 * len(listing.group_texts))
    order = np.argsort(-own_ns, kind="stable")
    named = ((listing.group_texts[row // 2], int(own_ns[row])) for row in order[own_ns[order] > 0])
    return [(name, took) for name, took in named if time_kind(name) is TimeKind.WORK]


def _check_recorded(sorted_by: SummaryColumn, has_shapes: bool, trace: TraceData) -> None:
    """Raise UsageError if the data of the sort column was not recorded."""
    if sorted_by.unit == "flops" and not has_shapes:
        raise UsageError(
            "This trace has no shapes, which floating-point operations are computed from. "
            "Record with --shapes or --flops, or sort by another column."
        )
    if sorted_by.unit == "bytes" and not memory_was_recorded(trace):
        raise UsageError(
            "This trace has no memory. Record with --memory, or sort by another column."
        )


def _values(averages: Averages) -> dict[str, Values]:
    values: dict[str, Values] = {}
    for column in COLUMNS:
        if column.key == "calls":
            values[column.key] = averages.count
        elif column.key == "cpu_mean_ns":
            values[column.key] = values["cpu_total_ns"] // np.maximum(averages.count, 1)
        else:
            values[column.key] = averages.quantity(column.key)
    return values


def _row(
    averages: Averages, values: dict[str, Values], columns: Sequence[SummaryColumn], group: int
) -> dict[str, Any]:
    row: dict[str, Any] = {"name": averages.names[group]}
    if averages.input_shapes is not None:
        row["input_shapes"] = averages.input_shapes[group]
    numbers: dict[str, int | None] = dict.fromkeys(values)
    numbers |= {column.key: int(values[column.key][group]) for column in columns}
    return row | numbers
