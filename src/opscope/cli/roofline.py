"""``opscope roofline``: how much of what the machine can do operators reach."""

from __future__ import annotations

import json
import sys
from typing import Annotated

from rich.table import Table
from rich.text import Text

from opscope.analysis.period import Which, find_which
from opscope.analysis.quantity_text import share_text, time_text
from opscope.analysis.roofline.peaks import Peaks, measured_peaks
from opscope.analysis.roofline.roofline import Roofline, RooflineRow, find_roofline
from opscope.cli import several_rooflines
from opscope.cli.console import Messages, Output, console_for
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
from opscope.errors import UsageError
from opscope.printable import printable
from opscope.trace.partition import Partition

_HEADINGS = ("Operator", "Calls", "Time", "FLOP/s", "Bytes/s", "Reached", "Lost", "Bound by")
_MOST_ROWS, _MOST_NOTES = 15, 8
_BUSY = "; it was busy while that was measured, so it may do more: that is not kept"
_RATES = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


def roofline(
    trace: TraceArgument = None,
    measure: Annotated[
        bool, Option(help="Measure this machine again, as when it was busy the last time.")
    ] = False,
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
    """Show how much of what this machine can do operators reach, and what holds them.

    From the shapes of arguments follows how much an operator has to compute and to move at least.
    What this machine does at its best is measured with torch, once, in products of matrices and in
    copies. "Lost" is the time that operators take beyond that.

    Bound by calls are operators so short that calling them is most of their time.

    Of a folder with several processes and none chosen, it shows all side by side, and which of them
    differ. JSON and CSV have the operators of each.
    """
    messages, which = Messages(), find_which(period)
    chosen, part = choose_trace(trace, rank, process), PartOption(range, steps)
    if chosen.is_of_several and part.is_all:
        return _print_several(chosen, which, measure, format)
    loaded = load_chosen(chosen, part)
    with messages.progress("measuring this machine"):
        if measure:
            measured_peaks(again=True)
        found = find_roofline(loaded, which=which)
    rows = found.rows if row_limit < 0 else found.rows[:row_limit]
    if format is RowsFormat.JSON:
        Output().write(json.dumps(found.as_dict(), indent=2) + "\n")
    elif format is RowsFormat.CSV:
        shown = found.as_dict()["rows"]
        Output().write(as_csv(list(shown[0]) if shown else [], [row.values() for row in shown]))
    elif format is RowsFormat.MARKDOWN:
        Output().show(as_markdown(_HEADINGS, map(_cells, rows)))
    else:
        console_for(sys.stdout).print(_table(rows))
    for line in _about(found, len(found.rows) - len(rows)):
        messages.say(line)


def _print_several(chosen: Chosen, which: Which, measure: bool, format: RowsFormat) -> None:
    messages, among = Messages(), len(chosen.parts)
    if measure:
        with messages.progress("measuring this machine"):
            measured_peaks(again=True)
    found: dict[Partition, Roofline] = {}
    nothing: dict[Partition, list[str]] = {}
    known: Peaks | None = None
    for part, one in each_process(chosen, "comparing with this machine"):
        try:
            found[part] = find_roofline(one, which=which, known=known)
            known = found[part].peaks
        except UsageError as error:
            nothing[part] = [str(error)]
    for line in said_once(nothing, among):
        messages.say(line)
    if known is None:
        raise UsageError(f"Of no process in {chosen.path} it is known what operators could reach.")
    several_rooflines.side_by_side(found, chosen.job.only(found).compared).show(format)
    notes = said_once({part: one.notes for part, one in found.items()}, among, _MOST_NOTES)
    for line in (_machine(known), *notes):
        messages.say(line)


def _table(rows: tuple[RooflineRow, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, heading in enumerate(_HEADINGS):
        table.add_column(heading, justify="right" if column else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in _cells(row)))
    return table


def _cells(row: RooflineRow) -> tuple[str, ...]:
    seconds = max(row.time_ns, 1) / 1e9
    return (
        row.operator,
        f"{row.calls:,}",
        time_text(row.time_ns),
        _rate(row.flops / seconds) if row.flops else "--",
        _rate(row.moved_bytes / seconds),
        share_text(row.share),
        time_text(round(row.lost_ns)),
        row.bound.value,
    )


def _rate(per_second: float) -> str:
    for size, unit in _RATES:
        if per_second >= size:
            return f"{per_second / size:.3g} {unit}"
    return f"{per_second:.3g}"


def _about(found: Roofline, left_out: int) -> list[str]:
    lines = [
        f"known of {share_text(found.coverage)} of the operators' time; the rest has no formula",
        _machine(found.peaks),
        *found.notes,
    ]
    return [f"{left_out} more rows: --row-limit -1 shows all", *lines] if left_out else lines


def _machine(peaks: Peaks) -> str:
    products = ", ".join(f"{_rate(rate)}FLOP/s in {t}" for t, rate in peaks.flops_per_s.items())
    best = max(rate for _, rate in peaks.bytes_per_s)
    return (
        f"this machine ({peaks.machine}): {products or 'no products measured'}; "
        f"{_rate(best)}B/s in caches, {_rate(peaks.bytes_per_s[-1][1])}B/s from memory"
        + (_BUSY if peaks.was_busy else "")
    )
