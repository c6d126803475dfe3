"""Write an HTML page that shows a trace: timeline, operators, modules, memory, steps.

Timeline and memory cover the whole recording, everything else the period. The page is one file that
works without network and server.

For a folder with several processes it also has the steps of all. The timeline shows the ranks
chosen with --rank; by default all, or of many ranks the slowest, the median and the fastest. TRACE
may also be a memory snapshot of torch.
"""

from __future__ import annotations

import webbrowser
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

from opscope._native import keep_freed_memory
from opscope.cli.parser import Parser, example
from opscope.cli.trace_argument import Chosen, add_trace, choose_trace, load_chosen
from opscope.cli.views.console import Messages
from opscope.cli.views.snapshot import is_snapshot
from opscope.cli.whole_job import of_readable, report_missing
from opscope.export.output_file import write_file
from opscope.report.page import report_html, snapshot_html, write_report
from opscope.storage.partition import parts_text
from opscope.storage.snapshot import read_snapshot
from opscope.timeline.period import Which

MOST_ON_TIMELINE = 8
"""Default number of processes on the timeline: more are too many to compare by eye."""


def options(parser: Parser) -> None:
    """Add the options."""
    add_trace(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="File to write; replaces an existing file. [default: NAME.html]",
    )
    parser.add_argument(
        "--title", metavar="TEXT", default="", help="Title of the page. [default: the program]"
    )
    parser.add_argument("--open", action="store_true", help="Open the page in the browser.")
    parser.epilog = example("opscope report", "opscope report job --rank 0,3 -o job.html --open")


def main(args: Namespace) -> None:
    """Write the page."""
    messages = Messages()
    if args.trace is not None and is_snapshot(args.trace):
        page = args.output or Path(f"{args.trace.stem}.html")
        html = snapshot_html(read_snapshot(args.trace), args.title or args.trace.name)
        write_file(page, [html.encode("utf-8")])
    else:
        page = _write_page(args, messages)
    messages.say(f"wrote {page} ({page.stat().st_size / 1e6:.1f} MB); open it in a browser")
    if args.open:
        webbrowser.open(page.resolve().as_uri())


def _write_page(args: Namespace, messages: Messages) -> Path:
    chosen = choose_trace(args)
    page: Path = args.output or Path(f"{page_stem(chosen.path)}.html")
    if chosen.is_of_several:
        html = page_of_several(chosen, args.title, args.period, messages)
        write_file(page, [html.encode("utf-8")])
    else:
        loaded = load_chosen(chosen)
        with messages.progress(f"writing {page}"):
            write_report(loaded, page, title=args.title, period=args.period)
    return page


def page_of_several(
    chosen: Chosen, title: str, period: Which, messages: Messages, is_served: bool = False
) -> str:
    """The page of a job, as text; prints notes on missing processes."""
    from opscope.api.job import Job

    keep_freed_memory()
    whole_job = Job(chosen.path)
    (compared, collectives), readable, unreadable = of_readable(
        whole_job,
        f"reading {len(whole_job)} processes",
        lambda job: (job.slow_ranks(), job.collectives()),
    )
    is_chosen = len(chosen.parts) < len(whole_job)
    default_parts = compared.steps.worth_showing(MOST_ON_TIMELINE) or readable.parts
    selected = whole_job.only(chosen.parts if is_chosen else default_parts)
    merged, shown, unreadable_shown = of_readable(
        selected, f"reading {len(selected)} processes", Job.together
    )
    slow = (rank.process for rank in compared.found if rank.process in shown)
    part = next(slow, None) or shown.most_recorded
    excluded = dict.fromkeys((*unreadable, *unreadable_shown))
    with messages.progress("making the page"):
        html = report_html(
            merged,
            title=title,
            period=period,
            ranks=(replace(compared, notes=(*compared.notes, *excluded)), collectives),
            on_timeline=shown.parts,
            process=(part, shown[part]),
            is_served=is_served,
        )
    shown_text = parts_text(shown.parts, len(whole_job))
    report_missing(whole_job, messages)
    messages.say(f"tables, findings and steps are of {part}")
    messages.say(f"the timeline shows {shown_text}; choose with {chosen.parts[0].option}")
    return html


def page_stem(trace: Path) -> str:
    """File name of a trace's page, without suffixes."""
    name = trace.resolve().name
    for suffix in (".opscope", ".json.gz", ".json", ".pt.trace"):
        name = name.removesuffix(suffix)
    return name or "report"
