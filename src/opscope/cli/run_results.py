"""What ``opscope run`` makes of a trace, as far as it is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opscope.cli.end_request import EndRequest
from opscope.trace.trace import Trace

if TYPE_CHECKING:
    from rich.console import RenderableType

    from opscope.analysis.top_operators import TopOperators

WriteFile = Callable[[Trace, "str | os.PathLike[str]"], object]


@dataclass(frozen=True)
class RunResults:
    """The functions that make them.

    Attributes:
        chrome: writes a Chrome trace; None where none is wanted.
        report: writes a page; None where none is wanted.
        table: lays out the table of operators; None where none is wanted.
        findings: what to change; None where the first of it, in the headline, will do.
    """

    chrome: WriteFile | None
    report: WriteFile | None
    table: Callable[[TopOperators, int], RenderableType] | None
    findings: Callable[[Trace], RenderableType] | None = None


def results_for(asked: EndRequest) -> RunResults:
    """What these are; the rest is not imported."""
    chrome: WriteFile | None = None
    report: WriteFile | None = None
    table: Callable[[TopOperators, int], RenderableType] | None = None
    findings: Callable[[Trace], RenderableType] | None = None
    places = [asked.destination, *([asked.job.destination] if asked.job else [])]
    if any(place.chrome is not None for place in places):
        from opscope.export.chrome.writer import write_chrome_trace as chrome
    if any(place.report is not None for place in places):
        from opscope.report.page import write_report as report
    if asked.table:
        from opscope.cli.operator_table import operator_text as table
    if asked.why:
        from opscope.cli.headline import what_to_change as findings
    return RunResults(chrome, report, table, findings)
