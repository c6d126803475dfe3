"""The summary of a trace, for notebooks and ``print``: verdict and operators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opscope.analysis.torch_listing.averages import key_averages
from opscope.base.html_table import ShownTable
from opscope.base.quantity_text import share_text, time_text
from opscope.columns.trace_data import TraceData
from opscope.findings.verdict import Verdict, find_verdict
from opscope.storage.job import missing_ranks
from opscope.timeline.doubts import NO_TIMES
from opscope.timeline.listing import OwnListing
from opscope.timeline.period import period_of
from opscope.timeline.waits import TimeKind, time_kind

_ROWS = 10


@dataclass(frozen=True)
class Summary:
    """Verdict and table of names, shown by ``print`` and by notebooks.

    Attributes:
        verdict: why the program is slow; None without times.
        table: the names with the most time of their own.
    """

    verdict: Verdict | None
    table: ShownTable

    def __str__(self) -> str:
        return "\n\n".join(str(part) for part in (self.verdict, self.table) if part is not None)

    def _repr_html_(self) -> str:
        verdict = "" if self.verdict is None else self.verdict._repr_html_()
        return verdict + self.table._repr_html_()


def summary_of(trace: TraceData, which: str = "steady") -> Summary:
    """The verdict, and the names with most time of their own."""
    if not len(trace.events):
        return Summary(None, ShownTable("opscope: no events were recorded", (), ()))
    if not trace.has_times:
        return Summary(None, _without_times(trace))
    period = period_of(trace, which)
    averages = key_averages(period.trace, listing=OwnListing(period.trace))
    works = np.array([time_kind(name) is TimeKind.WORK for name in averages.names], dtype=np.bool_)
    own, total, device = (
        averages.quantity(name) for name in ("cpu_self_ns", "cpu_total_ns", "device_self_ns")
    )
    top = np.argsort(-np.where(works, np.maximum(own, device), -1), kind="stable")[:_ROWS]
    with_device = bool(device.any())
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
        f"{period} ({len(trace.events):,} events, {len(averages):,} names).{_missing(trace)} "
        "trace.findings() explains what to change, trace.sql() answers questions, "
        "trace.to_pandas() returns a DataFrame."
    )
    columns = ["name", "calls", "self CPU", "share", "total CPU", *["self device"] * with_device]
    table = ShownTable("opscope: most self time", columns, rows, note)
    return Summary(find_verdict(trace, which), table)


def _missing(trace: TraceData) -> str:
    """Sentences about dropped events and missing ranks."""
    dropped, ranks = trace.ledger.lost(), missing_ranks(trace.ledger)
    lost = f" {dropped:,.0f} events were DROPPED while recording." if dropped else ""
    return lost + (f" This is not the whole job: {ranks}." if ranks else "")


def _without_times(trace: TraceData) -> ShownTable:
    averages = key_averages(trace, listing=OwnListing(trace))
    most = np.argsort(-averages.count, kind="stable")[:_ROWS]
    rows = [[averages.names[row], f"{averages.count[row]:,}"] for row in most]
    note = f"Here {NO_TIMES}: calls are counted.{_missing(trace)}"
    return ShownTable("opscope: most calls", ["name", "calls"], rows, note)
