"""A page that requests data from a server while it is open.

The page is that of ``page.py``. For a trace that is too long for a page, it has the spans of one
window, and requests those of other windows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import numpy as np

from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError
from opscope.report.packing import Packer, shown
from opscope.report.page import page_of
from opscope.report.payload import gather
from opscope.report.span_section import add_merged, add_spans
from opscope.report.windows import Windows, WindowsOfTwo
from opscope.storage.sql import rows_of
from opscope.timeline.period import Which

Query = Mapping[str, str]
Answer = dict[str, Any]

PIXELS = 4000
"""Width of a wide screen; spans shorter than a pixel are merged."""

_MOST_ROWS = 1000
_MOST_CELL = 300


class LivePage:
    """A page, and the JSON answers to its requests."""

    def __init__(
        self,
        html: Callable[[], str],
        sql: Callable[[str], Any],
        windows: Windows | WindowsOfTwo | None = None,
        start_ns: int = 0,
    ) -> None:
        """Serve a page.

        Args:
            html: returns the page.
            sql: runs a statement that can read only the trace; returns a DuckDB relation.
            windows: windows of the trace, if the page does not contain all its spans.
            start_ns: time 0 of the page, Unix time.
        """
        self._html, self._sql, self._windows, self._start_ns = html, sql, windows, start_ns

    def html(self) -> str:
        """The page."""
        return self._html()

    def answer(self, name: str, query: Query) -> Answer | None:
        """Answer to the request ``name``; None for an unknown name.

        Raises:
            OpscopeError: a field is invalid, or the trace is damaged.
        """
        if name == "sql":
            return self._rows(query.get("query", ""))
        if self._windows is not None and name == "spans":
            return self._spans(self._windows, query)
        if self._windows is not None and name == "find":
            return self._find(self._windows, query)
        return None

    def _spans(self, windows: Windows | WindowsOfTwo, query: Query) -> Answer:
        begin, end = _time(query, "from"), _time(query, "to")
        if end <= begin:
            raise UsageError("A window ends after it begins: `to` must be later than `from`.")
        return window_json(windows, self._start_ns, begin, end)

    def _find(self, windows: Windows | WindowsOfTwo, query: Query) -> Answer:
        """Number and total time of matching spans, and the next one after a time."""
        moment_ns = self._start_ns + _time(query, "after")
        backwards = query.get("backwards") == "1"
        found_spans = windows.find(lambda texts: _matches(texts, query), moment_ns, backwards)
        next_span = found_spans.next and [moment - self._start_ns for moment in found_spans.next]
        return {"count": found_spans.count, "time": found_spans.duration_ns, "next": next_span}

    def _rows(self, statement: str) -> Answer:
        if not statement.strip():
            raise UsageError("There is no query. Write one SELECT.")
        relation = self._sql(statement)
        rows = rows_of(relation)
        first = [[_cell(value) for value in row] for row in islice(rows, _MOST_ROWS)]
        has_more = next(rows, None) is not None
        return {"columns": list(map(shown, relation.columns)), "rows": first, "isMore": has_more}


def windowed_page(
    windows: Windows | WindowsOfTwo,
    part: TraceData,
    counts: Mapping[str, int],
    title: str,
    period: Which,
    versions: tuple[str, dict[str, Any]] | None = None,
) -> tuple[str, int]:
    """The page of a trace that is too long for a page, and its time 0.

    Args:
        windows: windows of the trace.
        part: trace for tables, findings and steps.
        counts: number of rows of the whole trace by table.
        title: title of the page.
        period: period of tables and findings.
        versions: for a page of two traces, the name of ``part`` and the differences.
    """
    least_ns = (windows.end_ns - windows.begin_ns) // PIXELS
    timeline, merged, least_ns = windows.window(windows.begin_ns, windows.end_ns + 1, least_ns)
    name, differences = versions or ("", None)
    report, columns = gather(timeline, title, which=period, process=(name, part), merged=merged)
    report["differences"] = differences
    report["run"]["counts"] |= {
        name: count for name, count in counts.items() if name in report["run"]["counts"]
    }
    start_ns = int(report["run"]["startedNs"])
    report["spans"]["window"] = {
        "from": 0, "to": windows.end_ns - start_ns, "least": least_ns, "pixels": PIXELS
    }  # fmt: skip
    return page_of(report, columns, is_served=True), start_ns


def window_json(windows: Windows | WindowsOfTwo, start_ns: int, begin: int, end: int) -> Answer:
    """Spans of a window in the page's format; times since ``start_ns``."""
    trace, merged, least = windows.window(start_ns + begin, start_ns + end, (end - begin) // PIXELS)
    packer = Packer()
    section, placed = add_spans(trace, start_ns, packer)
    add_merged(packer, merged, placed.position)
    section["window"] = {"from": begin, "to": end, "least": least, "pixels": PIXELS}
    data = packer.finish()
    return {"spans": section, "columns": packer.directory, "data": data}


def _time(query: Query, name: str) -> int:
    text = query.get(name, "")
    if not re.fullmatch(r"-?\d{1,18}", text):
        raise UsageError(f"`{name}` must be whole nanoseconds since the start of the recording.")
    return int(text)


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return shown(text if len(text) <= _MOST_CELL else f"{text[:_MOST_CELL]}…")


def _matches(texts: list[str], query: Query) -> np.ndarray[Any, Any]:
    """Texts that a search finds, as in ``web/src/data/search.ts``; no regular expressions."""
    text = query.get("text", "")
    if query.get("exact") == "1":
        return np.array([label == text for label in texts], dtype=np.bool_)
    words = text.lower().split()
    return np.array([all(w in label.lower() for w in words) for label in texts], dtype=np.bool_)
