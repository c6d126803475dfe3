"""``opscope report``: a trace as one HTML page."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

from opscope.analysis.period import Which, find_which
from opscope.cli.console import Messages
from opscope.cli.parameters import Option
from opscope.cli.part_option import PartOption, RangeOption, StepsOption
from opscope.cli.trace_argument import (
    PeriodOption,
    ProcessOption,
    RankOption,
    TraceArgument,
    open_traces,
)
from opscope.report.page import write_report


def report(
    trace: TraceArgument = None,
    output: Annotated[
        Path | None,
        Option(
            names=("--output", "-o"),
            metavar="FILE",
            help="The page to write; replaced if there.",
            default="NAME.html",
        ),
    ] = None,
    title: Annotated[
        str, Option(metavar="TEXT", help="Shown at the top.", default="the program")
    ] = "",
    period: PeriodOption = Which.STEADY.value,
    rank: RankOption = None,
    process: ProcessOption = None,
    range: RangeOption = None,
    steps: StepsOption = None,
    open_it: Annotated[bool, Option(names=("--open",), help="Show it in the browser.")] = False,
) -> None:
    """Write a page that shows a trace: timeline, operators, modules, memory, steps.

    The timeline and memory are of the whole recording, everything else of the period.

    The page is one file that needs no network and no server: send it to anybody, open it from disk.
    """
    messages, which = Messages(), find_which(period)
    trace, loaded = open_traces(trace, rank, process, PartOption(range, steps))
    page = output or Path(f"{page_stem(trace)}.html")
    with messages.progress(f"writing {page}"):
        write_report(loaded, page, title=title, period=which)
    messages.say(f"wrote {page} ({page.stat().st_size / 1e6:.1f} MB); open it in a browser")
    if open_it:
        webbrowser.open(page.resolve().as_uri())


def page_stem(trace: Path) -> str:
    """What to call the page of a trace: its name, without what says what kind of file it is."""
    name = trace.resolve().name
    for suffix in (".opscope", ".json.gz", ".json", ".pt.trace"):
        name = name.removesuffix(suffix)
    return name or "report"
