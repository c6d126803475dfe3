"""``opscope why``: what a step's time went to, cause by cause, and what to change."""

from __future__ import annotations

import sys
from typing import Annotated

from opscope._native import keep_freed_memory
from opscope.analysis.account.find import find_account
from opscope.analysis.findings.find import find_findings
from opscope.analysis.period import Which, find_which
from opscope.analysis.program_lines import line_texts
from opscope.cli import several_accounts, several_processes
from opscope.cli.console import Messages, Output, console_for
from opscope.cli.parameters import Option
from opscope.cli.part_option import PartOption, RangeOption, StepsOption
from opscope.cli.rows import RowsFormat
from opscope.cli.trace_argument import (
    Chosen,
    PeriodOption,
    ProcessOption,
    RankOption,
    TraceArgument,
    choose_trace,
    each_process,
    load_chosen,
)
from opscope.cli.why_formats import (
    CSV_COLUMNS,
    Why,
    as_csv,
    as_json,
    as_markdown,
    as_text,
    csv_rows,
    json_content,
)
from opscope.errors import TraceFormatError
from opscope.job.slow_ranks import SlowRanks
from opscope.trace.partition import Partition


def why(
    trace: TraceArgument = None,
    period: PeriodOption = Which.STEADY.value,
    format: Annotated[RowsFormat, Option(help="How to print it.")] = RowsFormat.TABLE,
    rank: RankOption = None,
    process: ProcessOption = None,
    range: RangeOption = None,
    steps: StepsOption = None,
) -> None:
    """Show why a step takes as long as it does: every cause, and what to change.

    The time of each thread and device is divided without rest: operators, torch around them,
    Python, waiting and what for, the machine, opscope itself, and what is unknown. In JSON, times
    are nanoseconds, step by step; CSV has a row for each thread and cause.

    Of a folder with several processes and none chosen, it shows all side by side, which rank the
    others wait for (in JSON, `stragglers`), and which has more of something than the others.
    """
    which = find_which(period)
    keep_freed_memory()
    chosen, part = choose_trace(trace, rank, process), PartOption(range, steps)
    if chosen.is_of_several and part.is_all:
        return _print_several(*_of_several(chosen, which), format)
    path, loaded = chosen.path, load_chosen(chosen, part)
    if loaded.is_empty:
        raise TraceFormatError(
            f"{path} holds no event, so there is no time to account for. Record a program that "
            "runs torch operators."
        )
    with Messages().progress("adding up"):
        found = Why(find_account(loaded, which), find_findings(loaded, which=which))
    texts = line_texts(loaded)
    if format is RowsFormat.JSON:
        Output().write(as_json(found, texts))
    elif format is RowsFormat.MARKDOWN:
        Output().show(as_markdown(found, texts))
    elif format is RowsFormat.CSV:
        Output().write(as_csv(found))
    else:
        console_for(sys.stdout).print(as_text(found, texts))


def _of_several(chosen: Chosen, which: Which) -> tuple[dict[Partition, Why], SlowRanks]:
    """What each process spent its time on, and who is slow."""
    whys = {
        part: Why(find_account(one, which), find_findings(one, which=which))
        for part, one in each_process(chosen, "adding up")
    }
    return whys, chosen.job.only(whys).slow_ranks()


def _print_several(whys: dict[Partition, Why], slow: SlowRanks, format: RowsFormat) -> None:
    said = slow.sentences() if slow.compared > 1 else []
    if format is RowsFormat.JSON:
        contents = {part: json_content(why) for part, why in whys.items()}
        Output().write(several_processes.as_json(contents, stragglers=slow.as_dict()))
    elif format is RowsFormat.MARKDOWN:
        Output().show(several_accounts.as_markdown(whys, said))
    elif format is RowsFormat.CSV:
        rows_of = {part: csv_rows(why) for part, why in whys.items()}
        Output().write(several_processes.as_csv(CSV_COLUMNS, rows_of))
    else:
        console = console_for(sys.stdout)
        console.print(several_accounts.as_text(whys, said, console.width))
