"""What ``opscope run`` makes of a trace: what is asked for, imported before the program runs.

At the end of a program ``sys.path`` may have changed, the process may not be able to open another
file, and the interpreter may be shutting down.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opscope.cli.destination import Destination
from opscope.trace.trace import Trace

if TYPE_CHECKING:
    from rich.console import RenderableType

    from opscope.cli.run_options import RunOptions
    from opscope.cli.top_operators import TopOperators

WriteFile = Callable[[Trace, "str | os.PathLike[str]"], object]


@dataclass(frozen=True)
class RunResults:
    """The functions that make them.

    Attributes:
        chrome: writes a Chrome trace; None where none is wanted.
        report: writes a page; None where none is wanted.
        table: lays out the table of operators; None where none is wanted.
        headline: what to say of the trace, in a few lines.
        findings: what to change; None where the first of it, in the headline, will do.
    """

    chrome: WriteFile | None
    report: WriteFile | None
    table: Callable[[TopOperators, int], tuple[RenderableType, list[str]]] | None
    headline: Callable[[Trace], list[str]]
    findings: Callable[[Trace], RenderableType] | None = None


def results_for(options: RunOptions, destination: Destination) -> RunResults:
    """What these ask for, imported now."""
    import opscope.trace.store  # noqa: F401  every trace is saved
    from opscope.cli.headline import headline

    chrome: WriteFile | None = None
    report: WriteFile | None = None
    table: Callable[[TopOperators, int], tuple[RenderableType, list[str]]] | None = None
    if destination.chrome is not None:
        from opscope.export.chrome.writer import write_chrome_trace as chrome
    if destination.report is not None:
        from opscope.report.page import write_report as report
    if options.table:
        from opscope.cli.summary_formats import as_table as table
    findings: Callable[[Trace], RenderableType] | None = None
    if options.why:
        from opscope.cli.headline import what_to_change as findings
    return RunResults(chrome, report, table, headline, findings)
