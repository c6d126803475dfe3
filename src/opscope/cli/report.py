"""``opscope report``: a trace as one HTML page."""

from __future__ import annotations

import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from opscope._native import keep_freed_memory
from opscope.api.job import Job
from opscope.cli.parameters import Option
from opscope.cli.part_option import PartOption, RangeOption, StepsOption
from opscope.cli.shown.console import Messages
from opscope.cli.trace_argument import (
    Chosen,
    PeriodOption,
    ProcessOption,
    RankOption,
    TraceArgument,
    choose_trace,
    load_chosen,
)
from opscope.cli.whole_job import of_readable, say_what_is_missing
from opscope.report.page import write_report
from opscope.storage.partition import parts_text
from opscope.timeline.period import Which

MOST_ON_TIMELINE = 8
"""Processes, where none was chosen: more are too many to compare by eye."""


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
    period: PeriodOption = Which.STEADY,
    rank: RankOption = None,
    process: ProcessOption = None,
    range: RangeOption = None,
    steps: StepsOption = None,
    open_it: Annotated[bool, Option(names=("--open",), help="Show it in the browser.")] = False,
) -> None:
    """Write a page that shows a trace: timeline, operators, modules, memory, steps.

    The timeline and memory are of the whole recording, everything else of the period.

    The page is one file that needs no network and no server: send it to anybody, open it from disk.

    Of a folder with several processes it also has the steps of all side by side. The timeline shows
    those chosen with --rank; by default all, or of many the slowest, the middle one and the
    quickest.
    """
    messages, part = Messages(), PartOption(range, steps)
    chosen = choose_trace(trace, rank, process)
    page = output or Path(f"{page_stem(chosen.path)}.html")
    if chosen.is_of_several and part.is_all:
        _write_of_several(chosen, page, title, period, messages)
    else:
        loaded = load_chosen(chosen, part)
        with messages.progress(f"writing {page}"):
            write_report(loaded, page, title=title, period=period)
    messages.say(f"wrote {page} ({page.stat().st_size / 1e6:.1f} MB); open it in a browser")
    if open_it:
        webbrowser.open(page.resolve().as_uri())


def _write_of_several(
    chosen: Chosen, page: Path, title: str, period: Which, messages: Messages
) -> None:
    keep_freed_memory()
    whole = Job(chosen.path)
    asked = of_readable(
        whole,
        f"looking at {len(whole)} processes",
        lambda job: (job.slow_ranks(), job.collectives()),
    )
    compared, together = asked.found
    is_chosen = len(chosen.parts) < len(whole)
    few = compared.steps.worth_showing(MOST_ON_TIMELINE) or asked.job.parts
    known = whole.only(chosen.parts if is_chosen else few)
    shown = of_readable(known, f"reading {len(known)} processes", Job.together)
    slow = [rank.process for rank in compared.found if rank.process in shown.job.parts]
    one = slow[0] if slow else shown.job.most_recorded
    left_out = dict.fromkeys((*asked.left_out, *shown.left_out))
    with messages.progress(f"writing {page}"):
        write_report(
            shown.found,
            page,
            title=title,
            period=period,
            ranks=(replace(compared, notes=(*compared.notes, *left_out)), together),
            on_timeline=shown.job.parts,
            process=(one, shown.job[one]),
        )
    there = parts_text(shown.job.parts, len(whole))
    say_what_is_missing(whole, messages)
    messages.say(f"tables, findings and steps are of {one}")
    messages.say(f"the timeline shows {there}; choose with {chosen.parts[0].option}")


def page_stem(trace: Path) -> str:
    """What to call the page of a trace: its name, without what says what kind of file it is."""
    name = trace.resolve().name
    for suffix in (".opscope", ".json.gz", ".json", ".pt.trace"):
        name = name.removesuffix(suffix)
    return name or "report"
