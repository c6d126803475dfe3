"""``opscope findings``: why a program is slow, and what to change."""

from __future__ import annotations

import sys
from typing import Annotated

from opscope.analysis.findings.find import find_findings
from opscope.analysis.period import Which, find_which
from opscope.analysis.program_lines import line_texts
from opscope.cli.console import Messages, Output, console_for
from opscope.cli.finding_formats import as_csv, as_json, as_markdown, as_text
from opscope.cli.parameters import Option
from opscope.cli.rows import RowsFormat
from opscope.cli.trace_argument import PeriodOption, RankOption, TraceArgument, open_trace
from opscope.errors import TraceFormatError
from opscope.printable import in_markdown


def findings(
    trace: TraceArgument = None,
    name: Annotated[
        str | None,
        Option(metavar="REGEX", help="Also report all events whose names match."),
    ] = None,
    benchmark: Annotated[
        bool,
        Option(help="Measure savings with torch on this machine, where possible."),
    ] = False,
    period: PeriodOption = Which.STEADY.value,
    format: Annotated[RowsFormat, Option(help="How to print them.")] = RowsFormat.TABLE,
    rank: RankOption = None,
) -> None:
    """Show why a program is slow: what was found, where, and what a fix would save.

    Patterns that need something this trace lacks are named, with what to record. Estimates are
    derived from the trace and say how; in JSON, times are nanoseconds and shares 0 to 1.
    """
    messages, which = Messages(), find_which(period)
    trace, loaded = open_trace(trace, rank)
    if len(loaded.events) == 0:
        raise TraceFormatError(
            f"{trace} holds no event, so there is nothing to look at. Record a program that runs "
            "torch operators."
        )
    with messages.progress("measuring" if benchmark else "looking for patterns"):
        found = find_findings(loaded, benchmark, name, which=which)
    texts = line_texts(loaded)
    if format is RowsFormat.JSON:
        Output().write(as_json(found, texts))
    elif format is RowsFormat.MARKDOWN:
        Output().show(as_markdown(found, texts) + f"\n{in_markdown(found.looked_at)}\n")
    elif format is RowsFormat.CSV:
        Output().write(as_csv(found))
    else:
        console_for(sys.stdout).print(as_text(found, texts))
