"""The page of two traces: both on one timeline with a common begin, and their differences."""

from __future__ import annotations

from typing import Any

from opscope.analysis.diff.compare import compare
from opscope.analysis.diff.result import Diff
from opscope.analysis.diff.step_costs import Side
from opscope.columns.trace_data import TraceData
from opscope.jobs.merged_trace import moved_by, versions_together
from opscope.report.diff_tables import closing, headline, tables
from opscope.report.kept_windows import windows_of
from opscope.report.live_page import windowed_page
from opscope.report.packing import shown
from opscope.report.page import page_of
from opscope.report.payload import gather
from opscope.report.windows import WindowsOfTwo
from opscope.storage.long_trace import LongTrace
from opscope.timeline.period import Which
from opscope.timeline.window import window_of

_MOST_ROWS = 30


def two_traces(a: Side, b: Side, title: str, period: Which) -> str:
    """The page of an old version ``a`` and a new version ``b``, for a server; tables and findings
    are those of ``b``."""
    names, title = _names_and_title(a, b, title)
    old, new = a.traces[0], b.traces[0]
    traces = moved_by(old, _start_ns(new) - _start_ns(old)), new
    together = versions_together(traces, names)
    report, columns = gather(together, title, which=period, process=(names[1], new))
    report["differences"] = _differences(compare(a, b))
    return page_of(report, columns, is_served=True)


def two_long_traces(
    old: LongTrace, new: LongTrace, parts: tuple[Side, Side], title: str, period: Which
) -> tuple[str, WindowsOfTwo, int]:
    """The page, its windows, and its time 0, for traces that are too long for a page.

    Tables, findings and differences are those of ``parts`` of both traces.
    """
    names, title = _names_and_title(*parts, title)
    windows = WindowsOfTwo(windows_of(old), windows_of(new), names)
    counts = {name: old.rows.get(name, 0) + rows for name, rows in new.rows.items()}
    versions = names[1], _differences(compare(*parts))
    page, start_ns = windowed_page(windows, parts[1].traces[0], counts, title, period, versions)
    return page, windows, start_ns


def _names_and_title(a: Side, b: Side, title: str) -> tuple[list[str], str]:
    names = [f"{letter}: {side.names[0]}" for letter, side in (("A", a), ("B", b))]
    return names, title or f"{a.names[0]} and {b.names[0]}"


def _start_ns(trace: TraceData) -> int:
    return window_of(trace, {}).start_ns


def _differences(diff: Diff) -> dict[str, Any]:
    return {
        "sentences": list(map(shown, (*headline(diff), *closing(diff)))),
        "tables": [
            {
                "heading": [f"{table.title}: {table.headings[0]}", *table.headings[1:]],
                "rows": [list(map(shown, row)) for row in table.rows],
            }
            for table in tables(diff, _MOST_ROWS)
        ],
    }
