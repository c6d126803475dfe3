"""Display of event lists and averages in notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opscope.base.html_table import html_table
from opscope.base.quantity_text import time_text
from opscope.torch_api.event.function_event_avg import FunctionEventAvg

ROWS = 20


def event_list_html(events: Sequence[Any]) -> str:
    """Averages with most time of their own, or the first events of a list of events."""
    if not len(events):
        return html_table("No events", (), ())
    if isinstance(events[0], FunctionEventAvg):
        return _averages(events)
    rows = [
        (event.name, _time(event.time_range.start), _time(event.time_range.elapsed_us()))
        for event in events[:ROWS]
    ]
    title = f"{len(events):,} events"
    return html_table(title, ("name", "start", "duration"), rows, _more(len(events), "events"))


def _averages(averages: Sequence[Any]) -> str:
    ranked = sorted(averages, key=lambda a: -max(a.self_cpu_time_total, a.self_device_time_total))
    with_device = any(a.self_device_time_total for a in averages)
    columns = ["name", "calls", "self CPU", "total CPU", "average"]
    if with_device:
        columns.append("self device")
    rows = [
        [
            average.key,
            f"{average.count:,}",
            _time(average.self_cpu_time_total),
            _time(average.cpu_time_total),
            _time(average.cpu_time),
            *([_time(average.self_device_time_total)] if with_device else []),
        ]
        for average in ranked[:ROWS]
    ]
    note = _more(len(averages), "names")
    return html_table("Averages, sorted by self time", columns, rows, note)


def _time(microseconds: float) -> str:
    return time_text(round(microseconds * 1000))


def _more(count: int, what: str) -> str:
    return f"{count - ROWS:,} more {what}; table(row_limit=-1) shows all." if count > ROWS else ""
