"""Display of a trace in notebooks: tables and losses."""

from __future__ import annotations

from opscope.base.html_table import html_table
from opscope.columns.ledger import doubts_in
from opscope.columns.schema import TABLES
from opscope.columns.trace_data import TraceData
from opscope.storage.job import missing_ranks


def summary_html(trace: TraceData) -> str:
    """Tables that have rows, with how to read them."""
    rows = [
        (name, f"{len(trace.table(name)):,}", f"one row is {schema.row}")
        for name, schema in TABLES.items()
        if len(trace.table(name)) and name not in ("ledger", "metadata")
    ]
    note = "to_pandas(), to_polars() and to_arrow() give tables, sql() runs queries. "
    return html_table(
        _title(trace),
        ("table", "rows", ""),
        rows,
        note + _dropped(trace) + _doubtful(trace) + _missing(trace),
        texts=(0, 2),
    )


def _title(trace: TraceData) -> str:
    events = trace.events
    if not len(events):
        return "opscope trace without events"
    if not trace.has_times:
        return f"opscope trace: {len(events):,} events without times"
    seconds = int(trace.end_ns.max() - events["start_ns"].min()) / 1e9
    return f"opscope trace: {len(events):,} events in {seconds:,.3f} s"


def _dropped(trace: TraceData) -> str:
    dropped = trace.ledger.lost()
    return f"{dropped:,.0f} events were DROPPED while recording. " if dropped else ""


def _doubtful(trace: TraceData) -> str:
    found = doubts_in(trace.ledger)
    said = "; ".join(f"{doubt.count:,} {doubt.what}" for doubt in found)
    return f"DOUBTFUL: {said}. " if found else ""


def _missing(trace: TraceData) -> str:
    missing = missing_ranks(trace.ledger)
    return f"The job is incomplete: {missing}." if missing else ""
