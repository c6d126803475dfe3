"""``opscope compiled``: which lines the time is of in what torch.compile generated."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Annotated

from rich.table import Table
from rich.text import Text

from opscope.analysis.compiled_code import CompiledCode, LineTime, find_compiled_code
from opscope.analysis.period import Which, find_which
from opscope.analysis.quantity_text import share_text, time_text
from opscope.cli import several_compiled
from opscope.cli.console import Messages, Output, console_for
from opscope.cli.finding_formats import below_here
from opscope.cli.parameters import Option
from opscope.cli.part_option import PartOption, RangeOption, StepsOption
from opscope.cli.rows import RowsFormat, as_csv, as_markdown
from opscope.cli.several_processes import said_once
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
from opscope.printable import printable
from opscope.trace.partition import Partition

_HEADINGS = ("Line", "Module", "Operators", "Kernels", "Time", "Share")
_CSV_HEADINGS = ("file", "line", "module", "operators", "kernels", "time_ns", "share")
_NOT_RECORDED = "compiled code was not recorded: opscope's own recordings since 0.1 have it"
_NONE_RAN = "no code that torch.compile generated ran here; --period all looks at start-up too"
_NUMBERS = 2
_MOST_ROWS = 20
_MOST_EVENTS = 10
_MOST_WORDS = 3


def compiled(
    trace: TraceArgument = None,
    row_limit: Annotated[
        int, Option(metavar="N", minimum=-1, help="Rows to show; -1 for all.")
    ] = _MOST_ROWS,
    period: PeriodOption = Which.STEADY.value,
    format: Annotated[RowsFormat, Option(help="How to print it.")] = RowsFormat.TABLE,
    rank: RankOption = None,
    process: ProcessOption = None,
    range: RangeOption = None,
    steps: StepsOption = None,
) -> None:
    """Show which lines the time in compiled code is of, and where its graphs break.

    A kernel that does the work of several lines is shared out among them by how many of its
    operations each has. JSON has every kernel with all of its lines, CSV times in nanoseconds. What
    torch.compile did is of the whole process: where graphs break, and what was compiled again and
    why.

    Of a folder with several processes and none chosen, it shows all side by side, which of them
    differ, and what torch.compile did in several once. JSON and CSV have the lines of each.
    """
    messages, which = Messages(), find_which(period)
    chosen, part = choose_trace(trace, rank, process), PartOption(range, steps)
    if chosen.is_of_several and part.is_all:
        return _print_several(chosen, which, row_limit, format)
    loaded = load_chosen(chosen, part)
    found = find_compiled_code(loaded, which)
    lines = found.lines
    shown = _first(lines, row_limit)
    rows = [_cells(line, found) for line in shown]
    if format is RowsFormat.JSON:
        Output().write(json.dumps(found.as_dict(), indent=2) + "\n")
    elif format is RowsFormat.CSV:
        Output().write(as_csv(_CSV_HEADINGS, [_csv_row(line, found) for line in shown]))
    elif format is RowsFormat.MARKDOWN:
        Output().show(as_markdown(_HEADINGS, rows, len(_HEADINGS) - _NUMBERS))
    elif rows:
        console_for(sys.stdout).print(_table(rows))
    for text in _about(found, len(lines) - len(shown)):
        messages.say(text)


def _print_several(chosen: Chosen, which: Which, row_limit: int, format: RowsFormat) -> None:
    found: dict[Partition, CompiledCode] = {}
    without: dict[Partition, list[str]] = {}
    for part, one in each_process(chosen, "looking at compiled code of"):
        code = find_compiled_code(one, which)
        if code.was_recorded:
            found[part] = code
        if not code.was_recorded or not code.graphs:
            without[part] = [_NONE_RAN if code.was_recorded else _NOT_RECORDED]
    rows_of = {
        part: [_csv_row(line, code) for line in _first(code.lines, row_limit)]
        for part, code in found.items()
    }
    compared = chosen.job.only(found).compared if found else ()
    several_compiled.side_by_side(found, compared, _CSV_HEADINGS, rows_of).show(format)
    for line in said_once(without, len(chosen.parts)):
        Messages().say(line)


def _first(lines: tuple[LineTime, ...], row_limit: int) -> tuple[LineTime, ...]:
    return lines if row_limit < 0 else lines[:row_limit]


def _table(rows: list[tuple[str, ...]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, heading in enumerate(_HEADINGS):
        is_number = column >= len(_HEADINGS) - _NUMBERS
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=is_number)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def _cells(one: LineTime, found: CompiledCode) -> tuple[str, ...]:
    line = one.line
    return (
        f"{below_here(line.file)}:{line.line}",
        line.module or "--",
        _few(line.operators),
        _few(one.kernels),
        time_text(one.time_ns),
        share_text(one.time_ns / max(found.graphs_ns, 1)),
    )


def _csv_row(one: LineTime, found: CompiledCode) -> tuple[object, ...]:
    line = one.line
    return (
        line.file,
        line.line,
        line.module,
        " ".join(line.operators),
        " ".join(one.kernels),
        one.time_ns,
        one.time_ns / max(found.graphs_ns, 1),
    )


def _few(words: tuple[str, ...]) -> str:
    more = len(words) - _MOST_WORDS
    return ", ".join(words[:_MOST_WORDS]) + (f" and {more} more" if more > 0 else "")


def _about(found: CompiledCode, left_out: int) -> Iterator[str]:
    if left_out:
        yield f"{left_out} more lines: --row-limit -1 shows all"
    yield from _about_time(found)
    yield from _about_compiling(found)


def _about_time(found: CompiledCode) -> Iterator[str]:
    if not found.was_recorded:
        yield _NOT_RECORDED
    elif not found.graphs:
        yield _NONE_RAN
    else:
        yield (
            f"{found.graphs:,} runs of compiled graphs took {time_text(found.graphs_ns)}; "
            f"{share_text(found.own_ns / max(found.graphs_ns, 1))} of that is generated code "
            f"itself; of its kernels and operators {share_text(found.coverage)} has a line, of all "
            f"of it {share_text(found.coverage_of_graphs)}"
        )
        for call in found.unknown:
            yield f"no line is known of {call.callee}: {time_text(call.time_ns)}"


def _about_compiling(found: CompiledCode) -> Iterator[str]:
    compiling_ns = sum(one.duration_ns for one in found.compilations if one.while_recording)
    if compiling_ns:
        yield f"torch.compile took {time_text(compiling_ns)} of the recording"
    for what, events in (
        ("the graph breaks", found.graph_breaks),
        ("compiled again", found.recompilations),
    ):
        for event in events[:_MOST_EVENTS]:
            yield f"{what} at {several_compiled.place_text(event)}: {event.reason}"
        if len(events) > _MOST_EVENTS:
            yield f"{what}: {len(events) - _MOST_EVENTS} more in --format json"
