"""Show where the time went: operators, modules, memory, devices, compiled code.

Percentages refer to the steady state, if start-up can be distinguished from it. JSON and CSV give
times in nanoseconds and sizes in bytes, under stable keys; CSV contains only the operators. For a
folder with several processes it lists the processes: events, duration, exit status. Choose one with
--rank or --process.

--gpu: device utilisation, causes of idle time, and busy time by operator and module. "Hidden" is
communication or copying that overlaps with compute. Launch delay is the time from the begin of a
launch call to the begin of its work. Occupancy is estimated from kernel sizes.

--roofline: achieved speed of operators against the peak of this machine. "Lost" is the time above
what the peak would need; "bound by calls" are operators so short that call overhead dominates.

--compiled: time in compiled code by source line, graph breaks and recompilations. The time of a
kernel that computes several lines is divided by their number of operations.

--gpu, --roofline and --compiled compare all processes side by side.
"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict, replace
from typing import Any

from opscope._native import keep_freed_memory
from opscope.analysis.device_account import describe_devices
from opscope.analysis.last_actions import how_it_ended, last_actions
from opscope.analysis.long_top_operators import find_long_top_operators
from opscope.analysis.top_operators import (
    DEFAULT_ROWS,
    DEFAULT_SORT,
    SORT_KEYS,
    TopOperators,
    check_row_limit,
    check_sort_key,
    find_top_operators,
    has_work,
)
from opscope.api.trace import Trace
from opscope.cli.parser import Parser, add_row_limit, example, whole_number
from opscope.cli.trace_argument import Chosen, add_trace, choose_trace, load_chosen, long_trace
from opscope.cli.views.completeness import describe_completeness, describe_dump, end_of_recording
from opscope.cli.views.console import Messages, Output
from opscope.cli.views.findings import verdict_section
from opscope.cli.views.operator_table import csv_of_operators, operator_content, operator_section
from opscope.cli.views.results import Result, RowsFormat, Section, add_format, as_csv
from opscope.cli.views.summary_sections import Sections, find_sections, shown_sections
from opscope.columns.trace_data import TraceData
from opscope.errors import TraceFormatError, UsageError
from opscope.storage.long_trace import LAST_NS, LongTrace
from opscope.timeline.period import Which, period_of


def options(parser: Parser) -> None:
    """Add the options."""
    add_trace(parser)
    views = parser.add_argument_group("other views").add_mutually_exclusive_group()
    views.add_argument(
        "--gpu", action="store_true", help="Device utilisation, and causes of idle time."
    )
    views.add_argument(
        "--roofline",
        action="store_true",
        help="Speed of operators against the peak of this machine.",
    )
    views.add_argument(
        "--compiled", action="store_true", help="Compiled code by source line, and graph breaks."
    )
    parser.add_argument(
        "--measure",
        action="store_true",
        help="With --roofline: measure this machine again, for example if it was busy before.",
    )
    parser.add_argument(
        "--sort-by",
        metavar="KEY",
        help=f"Column to sort by: {', '.join(SORT_KEYS)}. [default: {DEFAULT_SORT}]",
    )
    add_row_limit(parser, None, "Rows to show")
    parser.add_argument(
        "--group-by-shape",
        action="store_true",
        help="One row for each operator and argument shapes.",
    )
    parser.add_argument(
        "--tokens",
        metavar="N",
        type=whole_number(),
        help="With --format md: a summary for agents, as in `opscope mcp`, of at most N tokens.",
    )
    add_format(parser)
    parser.epilog = example("opscope summary", "opscope summary job --rank 2 --gpu")


def main(args: Namespace) -> None:
    """Print the requested view."""
    sort_by = check_sort_key(args.sort_by or DEFAULT_SORT)
    keep_freed_memory()
    is_view = args.gpu or args.roofline or args.compiled
    if is_view and (args.sort_by or args.group_by_shape):
        raise UsageError(
            "--sort-by and --group-by-shape are for the table of operators. Remove them."
        )
    if args.measure and not args.roofline:
        raise UsageError("--measure needs --roofline.")
    if args.tokens is not None and (is_view or args.format is not RowsFormat.MARKDOWN):
        raise UsageError("--tokens is for the summary as Markdown. Add --format md.")
    chosen, row_limit = choose_trace(args), args.row_limit
    if args.tokens is not None:
        return Output().show(_brief(chosen, args.tokens))
    if args.gpu:
        from opscope.cli.views.gpu import device_use

        device_use(chosen, args.period, row_limit).show(args.format)
    elif args.roofline:
        from opscope.cli.views.roofline import roofline

        roofline(chosen, args.period, row_limit, args.measure).show(args.format)
    elif args.compiled:
        from opscope.cli.views.compiled import compiled

        compiled(chosen, args.period, row_limit).show(args.format)
    elif chosen.is_of_several:
        from opscope.cli.views.process_table import print_processes

        print_processes(chosen.job, args.format)
    else:
        options = {
            "sort_by": sort_by,
            "row_limit": check_row_limit(DEFAULT_ROWS if row_limit is None else row_limit),
            "by_shape": args.group_by_shape,
        }
        if (long := long_trace(chosen)) is not None:
            _print_long(long, chosen, options, args.format)
        else:
            _print(chosen, args.period, options, args.format)


def _brief(chosen: Chosen, tokens: int) -> str:
    from opscope.readers.agent_report import verdict_brief
    from opscope.readers.answers import answers_of, answers_of_job

    if chosen.is_of_several:
        return verdict_brief(answers_of_job(chosen.job, chosen.path.name), tokens)
    trace = Trace.of(load_chosen(chosen))
    return verdict_brief(answers_of(trace, chosen.path.name), tokens)


def _print(chosen: Chosen, period: Which, options: dict[str, Any], format: RowsFormat) -> None:
    trace, loaded = chosen.path, load_chosen(chosen)
    is_empty = not has_work(loaded)
    if is_empty and format is RowsFormat.TABLE:
        _print_why(loaded)  # a dump without operators still has its reason
        Messages().say(describe_completeness(loaded))
    if loaded.is_empty:
        raise TraceFormatError(
            f"{trace} contains no events. Record a program that runs torch operators."
        )
    if is_empty:
        raise TraceFormatError(
            f"{trace} contains no operators, only other events (`opscope sql` shows them). "
            "Record a program that runs torch operators."
        )
    top = find_top_operators(period_of(loaded, period), **options)
    if format is RowsFormat.CSV:
        return Output().write(as_csv(*csv_of_operators(top)))
    below = find_sections(loaded, top.period)
    above = [*filter(None, [describe_dump(loaded)]), *end_of_recording(loaded)]
    notes = [
        *_stretch_text(below.stretch, "the tables of operators and memory cover"),
        *describe_devices(loaded),
        describe_completeness(loaded),
    ]
    _show(above, top, below, _json_about(loaded), notes, format)


def _print_long(
    trace: LongTrace, chosen: Chosen, options: dict[str, Any], format: RowsFormat
) -> None:
    """Print a long recording: operators of all of it, other sections of a typical stretch."""
    with Messages().progress("adding up"):
        top = find_long_top_operators(trace, **options)
    if format is RowsFormat.CSV:
        return Output().write(as_csv(*csv_of_operators(top)))
    _, end_ns = trace.span_ns
    ended = end_of_recording(trace.between(end_ns - LAST_NS, end_ns + 1))
    typical = load_chosen(replace(chosen, period=Which.STEADY))
    period = period_of(typical)
    # Without memory: the peak may be outside of the stretch.
    below = find_sections(typical, period, has_memory=False)
    events = trace.rows["events"]
    notes = [
        *_stretch_text(str(period), "the table of operators covers"),
        describe_completeness(typical, events),
    ]
    _show(ended, top, below, {**_json_about(trace.small), "events": events}, notes, format)


def _show(
    above: list[str],
    top: TopOperators,
    below: Sections,
    about: dict[str, Any],
    notes: list[str],
    format: RowsFormat,
) -> None:
    """Print sentences, the verdict, operators and other sections; ``about``: more for JSON."""
    left_out = [f"{top.left_out} more rows: --row-limit -1 shows all"] if top.left_out else []
    Result(
        sections=[
            *([Section(notes=above)] if above else []),
            *([verdict_section(below.verdict)] if below.verdict is not None else []),
            operator_section(top),
            *shown_sections(below),
        ],
        content={**about, **operator_content(top), **below.as_dict()},
        about=[*left_out, *notes] if format is RowsFormat.TABLE else [],
    ).show(format)


def _stretch_text(stretch: str, others: str) -> list[str]:
    return [f"{others} the whole recording; other sections cover: {stretch}"] if stretch else []


def _print_why(trace: TraceData) -> None:
    for line in (describe_dump(trace), *end_of_recording(trace)):
        if line:
            Output().show(f"{line}\n")


def _json_about(trace: TraceData) -> dict[str, Any]:
    counts = {
        source: {what: int(value) if value.is_integer() else value for what, value in row.items()}
        for source, row in trace.ledger.items()
    }
    dump = trace.metadata.get("dump")
    about: dict[str, Any] = {"dump": dump} if dump is not None else {}
    about |= {"events": len(trace.events), "ledger": counts}
    if how := how_it_ended(trace):
        about["ended"] = {"how": how, "threads": [asdict(a) for a in last_actions(trace)]}
    return about
