"""What a notebook shows of a finished profile: where the time went, in a few rows."""

from __future__ import annotations

import numpy as np

from opscope.analysis.quantity_text import time_text
from opscope.analysis.torch_listing.averages import key_averages
from opscope.trace.html_table import html_table
from opscope.trace.trace import Trace

_ROWS = 10


def overview_html(trace: Trace) -> str:
    """The names with most time of their own, and what to call for more."""
    averages = key_averages(trace)
    if not len(averages):
        return html_table("opscope: nothing was recorded", (), ())
    zero = np.zeros(len(averages), dtype=np.int64)
    q = averages.quantities
    own, total = q.cpu_self_ns, q.cpu_total_ns
    device = q.device_self_ns
    own, total = zero if own is None else own, zero if total is None else total
    device = zero if device is None else device
    top = np.argsort(-np.maximum(own, device), kind="stable")[:_ROWS]
    columns = ["name", "calls", "self CPU", "total CPU"]
    with_device = bool(device.any())
    if with_device:
        columns.append("self device")
    rows = [
        [
            averages.names[row],
            f"{averages.count[row]:,}",
            time_text(int(own[row])),
            time_text(int(total[row])),
            *([time_text(int(device[row]))] if with_device else []),
        ]
        for row in top
    ]
    note = (
        f"{len(trace.events):,} events, {len(averages):,} names. export_report(path) writes a page "
        "to look at, key_averages() a table, trace.to_pandas() a DataFrame."
    )
    return html_table("opscope: most time of their own", columns, rows, note)
