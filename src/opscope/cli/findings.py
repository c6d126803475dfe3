"""``opscope findings``: why a program is slow, and what to change."""

from __future__ import annotations

import sys
from typing import Annotated

from opscope._native import keep_freed_memory
from opscope.analysis.findings.find import find_findings
from opscope.analysis.findings.finding import Findings
from opscope.analysis.period import Which, find_which
from opscope.analysis.program_lines import line_texts
from opscope.cli import several_findings, several_processes
from opscope.cli.console import Messages, Output, console_for
from opscope.cli.finding_formats import (
    CSV_COLUMNS,
    LineTexts,
    as_csv,
    as_json,
    as_markdown,
    as_text,
    csv_rows,
    json_content,
)
from opscope.cli.parameters import Option
from opscope.cli.part_option import PartOption, RangeOption, StepsOption
from opscope.cli.rows import RowsFormat
from opscope.cli.trace_argument import (
    PeriodOption,
    ProcessOption,
    RankOption,
    TraceArgument,
    choose_trace,
    each_process,
    load_chosen,
)
from opscope.errors import TraceFormatError
from opscope.printable import in_markdown
from opscope.trace.partition import Partition


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
    process: ProcessOption = None,
    range: RangeOption = None,
    steps: StepsOption = None,
) -> None:
    """Show why a program is slow: what was found, where, and what a fix would save.

    Patterns that need something this trace lacks are named, with what to record. Estimates are
    derived from the trace and say how; in JSON, times are nanoseconds and shares 0 to 1.

    Of a folder with several processes and none chosen, it is about all: what is the same in
    several is said once.
    """
    messages, which = Messages(), find_which(period)
    if not benchmark:  # what is timed has the memory that other programs have
        keep_freed_memory()
    chosen, part = choose_trace(trace, rank, process), PartOption(range, steps)
    if chosen.is_of_several and part.is_all:
        found_in, texts_of = {}, {}
        for number, one in each_process(chosen, "looking for patterns in"):
            found_in[number] = find_findings(one, benchmark, name, which=which)
            texts_of[number] = line_texts(one)
        return _print_several(found_in, texts_of, format)
    trace, loaded = chosen.path, load_chosen(chosen, part)
    if loaded.is_empty:
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


def _print_several(
    found: dict[Partition, Findings],
    texts: dict[Partition, LineTexts],
    format: RowsFormat,
) -> None:
    all_texts = {place: text for one in texts.values() for place, text in one.items()}
    if format is RowsFormat.JSON:
        contents = {part: json_content(one, texts[part]) for part, one in found.items()}
        Output().write(several_processes.as_json(contents))
    elif format is RowsFormat.MARKDOWN:
        Output().show(several_findings.as_markdown(found, all_texts))
    elif format is RowsFormat.CSV:
        rows_of = {part: csv_rows(one) for part, one in found.items()}
        Output().write(several_processes.as_csv(CSV_COLUMNS, rows_of))
    else:
        console_for(sys.stdout).print(several_findings.as_text(found, all_texts))
