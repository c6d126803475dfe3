"""The page of two traces: one timeline that both begin at the left of, and what differs."""

from __future__ import annotations

from typing import Any

from opscope.analysis.diff.compare import compare
from opscope.analysis.diff.result import Diff
from opscope.analysis.diff.step_costs import Side
from opscope.columns.trace_data import TraceData
from opscope.export.window import window_of
from opscope.jobs.merged_trace import moved_by, traces_together
from opscope.report.diff_tables import closing, headline, tables
from opscope.report.packing import shown
from opscope.report.page import page_of
from opscope.report.payload import gather
from opscope.storage.processes import ProcessEntry
from opscope.timeline.period import Which

_MOST_ROWS = 30


def two_traces(a: Side, b: Side, title: str, period: Which) -> tuple[str, TraceData]:
    """The page, which is served, and both traces as one; tables and findings are those of ``b``.

    Args:
        a: one recording of the old version.
        b: one of the new version.
        title: shown at the top.
        period: of tables and findings.
    """
    names = [f"{letter}: {side.names[0]}" for letter, side in (("A", a), ("B", b))]
    old, new = a.traces[0], b.traces[0]
    both = old, moved_by(new, _start_ns(old) - _start_ns(new))
    together = traces_together([(ProcessEntry(0), one) for one in both], names)
    title = title or f"{a.names[0]} and {b.names[0]}"
    report, columns = gather(together, title, which=period, process=(names[1], new))
    report["differences"] = _differences(compare(a, b))
    return page_of(report, columns, is_served=True), together


def _start_ns(trace: TraceData) -> int:
    """Of the first that is in it, on the host or a device."""
    return window_of(trace, {}).start_ns


def _differences(found: Diff) -> dict[str, Any]:
    return {
        "said": list(map(shown, (*headline(found), *closing(found)))),
        "tables": [
            {
                "heading": [f"{table.title}: {table.headings[0]}", *table.headings[1:]],
                "rows": [list(map(shown, row)) for row in table.rows],
            }
            for table in tables(found, _MOST_ROWS)
        ],
    }
