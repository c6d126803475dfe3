"""What a page in a browser requests while it is open.

The page is that of ``page.py``. Of a trace that it could not hold, it has the spans of one window
at a time, and asks for those of the next.
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
from opscope.report.windows import Windows
from opscope.report.windows_of_two import WindowsOfTwo
from opscope.storage.sql import rows_of
from opscope.timeline.period import Which

Query = Mapping[str, str]
Answer = dict[str, Any]

PIXELS = 4000
"""That a screen has from left to right; a span of a smaller part of a window is not seen."""

_MOST_ROWS = 1000
_MOST_CELL = 300


class LivePage:
    """A page and its answers; each takes the fields of a query and returns what JSON can hold."""

    def __init__(
        self,
        html: Callable[[], str],
        sql: Callable[[str], Any],
        windows: Windows | WindowsOfTwo | None = None,
        start_ns: int = 0,
    ) -> None:
        """Serve a page.

        Args:
            html: makes the page.
            sql: runs a statement that may reach nothing but the trace; returns a DuckDB relation.
            windows: of a trace that the page does not hold all spans of.
            start_ns: time 0 of the page, Unix time.
        """
        self._html, self._sql, self._windows, self._start_ns = html, sql, windows, start_ns

    def html(self) -> str:
        """The page."""
        return self._html()

    def answer(self, name: str, query: Query) -> Answer | None:
        """Answer to a request by name; None for an unknown name.

        Raises:
            OpscopeError: a field is wrong, or the trace is damaged.
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
        """Number and total time of matching spans, and the next one from a moment on."""
        moment_ns = self._start_ns + _time(query, "after")
        backwards = query.get("backwards") == "1"
        found = windows.find(lambda texts: _matches(texts, query), moment_ns, backwards)
        near = found.next and [moment - self._start_ns for moment in found.next]
        return {"count": found.count, "time": found.duration_ns, "next": near}

    def _rows(self, statement: str) -> Answer:
        if not statement.strip():
            raise UsageError("There is no query. Write one SELECT.")
        relation = self._sql(statement)
        rows = rows_of(relation)
        first = [[_cell(value) for value in row] for row in islice(rows, _MOST_ROWS)]
        is_more = next(rows, None) is not None
        return {"columns": list(map(shown, relation.columns)), "rows": first, "isMore": is_more}


def windowed_page(
    windows: Windows | WindowsOfTwo,
    part: TraceData,
    counts: Mapping[str, int],
    title: str,
    period: Which,
    versions: tuple[str, dict[str, Any]] | None = None,
) -> tuple[str, int]:
    """The page of a trace that it cannot hold, and its time 0.

    Args:
        windows: of the trace.
        part: what tables, findings and steps are of.
        counts: rows of the whole trace by table.
        title: shown at the top.
        period: of tables and findings.
        versions: of a page of two, which one ``part`` is of, and what differs.
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
    """The spans of a window, as the page has those of all; times since ``start_ns``."""
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
    """Which texts a search finds; as ``web/src/data/search.ts``, but for regular expressions."""
    text = query.get("text", "")
    if query.get("exact") == "1":
        return np.array([one == text for one in texts], dtype=np.bool_)
    words = text.lower().split()
    return np.array([all(word in one.lower() for word in words) for one in texts], dtype=np.bool_)
