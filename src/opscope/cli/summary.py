"""``opscope summary``: where the time and memory went, and what to change."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

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
    ran_anything,
)
from opscope.cli.parameters import Option
from opscope.cli.part_option import PartOption, RangeOption, StepsOption
from opscope.cli.shown.completeness import describe_completeness, describe_dump, end_of_recording
from opscope.cli.shown.console import Messages, Output
from opscope.cli.shown.headline import verdict_section
from opscope.cli.shown.operator_table import csv_of_operators, operator_content, operator_section
from opscope.cli.shown.process_table import print_processes
from opscope.cli.shown.results import FormatOption, Result, RowsFormat, Section, as_csv
from opscope.cli.shown.summary_sections import find_sections, shown_sections
from opscope.cli.trace_argument import (
    PeriodOption,
    ProcessOption,
    RankOption,
    TraceArgument,
    choose_trace,
    load_chosen,
    long_trace,
)
from opscope.columns.trace_data import TraceData
from opscope.errors import TraceFormatError
from opscope.storage.long_trace import LAST_NS, LongTrace
from opscope.timeline.period import Which, period_of


def summary(
    trace: TraceArgument = None,
    sort_by: Annotated[
        str,
        Option(
            metavar="KEY", help=f"Column that decides what comes first: {', '.join(SORT_KEYS)}."
        ),
    ] = DEFAULT_SORT,
    row_limit: Annotated[int, Option(metavar="N", help="Rows to show; -1 for all.")] = DEFAULT_ROWS,
    group_by_shape: Annotated[
        bool, Option(help="Calls with other argument shapes are another row.")
    ] = False,
    period: PeriodOption = Which.STEADY,
    format: FormatOption = RowsFormat.TABLE,
    rank: RankOption = None,
    process: ProcessOption = None,
    range: RangeOption = None,
    steps: StepsOption = None,
) -> None:
    """Show where the time went: operators, modules, memory, and what to change.

    Shares are of the time looked at: that of the steady state, where a start-up can be told.

    In JSON and CSV, times are nanoseconds and sizes bytes, under keys that stay the same. CSV has
    the operators only.

    Of a folder with several processes and none chosen, it shows those: what was recorded of each,
    how long, how it ended.
    """
    sort_by, row_limit = check_sort_key(sort_by), check_row_limit(row_limit)
    keep_freed_memory()
    chosen, part = choose_trace(trace, rank, process), PartOption(range, steps)
    if chosen.is_of_several and part.is_all:
        return print_processes(chosen.job, format)
    if part.is_all and (long := long_trace(chosen)) is not None:
        return _print_long(long, sort_by, row_limit, group_by_shape, format)
    trace, loaded = chosen.path, load_chosen(chosen, part)
    is_empty = not ran_anything(loaded)
    if is_empty and format is RowsFormat.TABLE:
        _print_why(loaded)  # which is what a dump is for, also where it has nothing else
        Messages().say(describe_completeness(loaded))
    if loaded.is_empty:
        raise TraceFormatError(
            f"{trace} holds no event, so there is nothing to summarise. Record a program that "
            "runs torch operators."
        )
    if is_empty:
        raise TraceFormatError(
            f"{trace} holds no operator, so there is nothing to summarise; its events are of "
            "other kinds (`opscope sql` shows them). Record a program that runs torch operators."
        )
    top = find_top_operators(
        period_of(loaded, period), sort_by=sort_by, row_limit=row_limit, by_shape=group_by_shape
    )
    if format is RowsFormat.CSV:
        return Output().write(as_csv(*csv_of_operators(top)))
    below = find_sections(loaded, top.period)
    first = [*([describe_dump(loaded)] if describe_dump(loaded) else []), *end_of_recording(loaded)]
    Result(
        sections=[
            *([Section(notes=first)] if first else []),
            *([verdict_section(below.verdict)] if below.verdict is not None else []),
            operator_section(top),
            *shown_sections(below),
        ],
        content={**_about(loaded), **operator_content(top), **below.as_dict()},
        about=[*_left_out(top), *describe_devices(loaded), describe_completeness(loaded)]
        if format is RowsFormat.TABLE
        else [],
    ).show(format)


def _print_long(
    trace: LongTrace, sort_by: str, row_limit: int, by_shape: bool, format: RowsFormat
) -> None:
    """Of a recording that does not fit in memory, what can be added up."""
    with Messages().progress("adding up"):
        top = find_long_top_operators(
            trace, sort_by=sort_by, row_limit=row_limit, by_shape=by_shape
        )
    if format is RowsFormat.CSV:
        return Output().write(as_csv(*csv_of_operators(top)))
    _, end_ns = trace.span_ns
    events = trace.rows["events"]
    ended = end_of_recording(trace.between(end_ns - LAST_NS, end_ns + 1))
    Result(
        sections=[*([Section(notes=ended)] if ended else []), operator_section(top)],
        content={**_about(trace.small), "events": events, **operator_content(top)},
        about=[
            *_left_out(top),
            "modules, memory and what to change are shown of a part: --range A..B (seconds) or "
            "--steps A..B",
            describe_completeness(trace.small, events),
        ]
        if format is RowsFormat.TABLE
        else [],
    ).show(format)


def _left_out(top: TopOperators) -> list[str]:
    return [f"{top.left_out} more rows: --row-limit -1 shows all"] if top.left_out else []


def _print_why(trace: TraceData) -> None:
    """Of a dump why it was made, and how a recording ended that nobody stopped."""
    for line in (describe_dump(trace), *end_of_recording(trace)):
        if line:
            Output().show(f"{line}\n")


def _about(trace: TraceData) -> dict[str, Any]:
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
