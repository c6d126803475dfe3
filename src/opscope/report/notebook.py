"""What a notebook shows of a finished profile: where the time went, in a few rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from opscope.analysis.torch_listing.averages import key_averages
from opscope.base.html_table import html_table
from opscope.base.quantity_text import share_text, time_text
from opscope.columns.trace_data import TraceData
from opscope.findings.verdict import find_verdict
from opscope.timeline.doubts import NO_TIMES
from opscope.timeline.listing import OwnListing
from opscope.timeline.period import period_of
from opscope.timeline.waits import TimeKind, time_kind

_ROWS = 10
_MOST_EVENTS = 300_000
"""A verdict on more takes longer than who looks at a notebook wants to wait."""


def overview_html(trace: TraceData) -> str:
    """The names with most time of their own, and what to call for more."""
    if not len(trace.events):
        return html_table("opscope: nothing was recorded", (), ())
    if not trace.has_times:
        return _without_times(trace)
    period = period_of(trace)
    averages = key_averages(period.trace, listing=OwnListing(period.trace))
    works = np.array([time_kind(name) is TimeKind.WORK for name in averages.names], dtype=np.bool_)
    q = averages.quantities
    own, total, device = (_filled(v) for v in (q.cpu_self_ns, q.cpu_total_ns, q.device_self_ns))
    top = np.argsort(-np.where(works, np.maximum(own, device), -1), kind="stable")[:_ROWS]
    with_device = bool(np.any(device))
    rows = [
        [
            averages.names[row],
            f"{averages.count[row]:,}",
            time_text(int(own[row])),
            share_text(int(own[row]) / period.wall_ns),
            time_text(int(total[row])),
            *([time_text(int(device[row]))] if with_device else []),
        ]
        for row in top[works[top]]
    ]
    note = (
        f"{period} ({len(trace.events):,} events, {len(averages):,} names). export_report(path) "
        "writes a page to look at, key_averages() a table, trace.to_pandas() a DataFrame."
    )
    columns = ["name", "calls", "self CPU", "share", "total CPU", *["self device"] * with_device]
    return _verdict_html(trace) + html_table("opscope: most time of their own", columns, rows, note)


def _verdict_html(trace: TraceData) -> str:
    if len(trace.events) > _MOST_EVENTS:
        return ""
    return find_verdict(trace)._repr_html_()


def _without_times(trace: TraceData) -> str:
    averages = key_averages(trace, listing=OwnListing(trace))
    most = np.argsort(-averages.count, kind="stable")[:_ROWS]
    rows = [[averages.names[row], f"{averages.count[row]:,}"] for row in most]
    note = f"Here {NO_TIMES}: calls are counted."
    return html_table("opscope: most calls", ["name", "calls"], rows, note)


def _filled(values: Any) -> Any:
    return 0 if values is None else values
