"""``opscope memory``: what was in use when memory was fullest."""

from __future__ import annotations

import json
import sys
from dataclasses import astuple
from typing import Annotated

from opscope.analysis.memory.groups import PeakGroup
from opscope.analysis.memory.peak import PeakMemory, memory_at_peak
from opscope.cli import several_processes
from opscope.cli.console import Messages, Output, console_for
from opscope.cli.parameters import Option
from opscope.cli.rows import RowsFormat, as_csv, as_markdown
from opscope.cli.several_peaks import PEAKS_HEADING, as_peaks_table, peak_rows
from opscope.cli.trace_argument import (
    Chosen,
    ProcessOption,
    RankOption,
    TraceArgument,
    choose_trace,
    each_process,
    load_chosen,
)
from opscope.errors import UsageError
from opscope.export.peak_table import peak_table
from opscope.trace.partition import Partition

_HEADING = ("by", "name", "size_bytes", "blocks", "before_bytes")


def memory(
    trace: TraceArgument = None,
    device: Annotated[
        str | None,
        Option(
            metavar="DEVICE",
            help="Such as cpu or cuda:0.",
            default="the fullest accelerator, else cpu",
        ),
    ] = None,
    row_limit: Annotated[
        int, Option(metavar="N", minimum=1, help="Rows of each table to show.")
    ] = 8,
    format: Annotated[RowsFormat, Option(help="How to print it.")] = RowsFormat.TABLE,
    rank: RankOption = None,
    process: ProcessOption = None,
) -> None:
    """Show what was in use when memory was fullest.

    By category, module, operator and function, largest first.

    Record with --memory; --shapes adds categories and memory from before the recording, --modules
    and --stack say who allocated it. The other formats have all groups, with sizes in bytes.

    Of a folder with several processes and none chosen, it shows the peak of each.
    """
    chosen = choose_trace(trace, rank, process)
    if chosen.is_of_several:
        return _print_several(chosen, device, format)
    peak = memory_at_peak(load_chosen(chosen), device)
    if format is RowsFormat.JSON:
        Output().write(json.dumps(peak.to_dict(), indent=2) + "\n")
    elif format is RowsFormat.TABLE:
        Output().show(peak_table(peak, row_limit, console_for(sys.stdout).width))
    else:
        rows = _rows(peak)
        text = (
            as_csv(_HEADING, rows) if format is RowsFormat.CSV else as_markdown(_HEADING, rows, 2)
        )
        Output().write(text)


def _print_several(chosen: Chosen, device: str | None, format: RowsFormat) -> None:
    peaks: dict[Partition, PeakMemory] = {}
    nothing: dict[Partition, list[str]] = {}
    for number, trace in each_process(chosen, "adding up the memory of"):
        try:
            peaks[number] = memory_at_peak(trace, device)
        except UsageError as error:
            nothing[number] = [str(error)]
    for line in several_processes.said_once(nothing, len(chosen.parts)):
        Messages().say(line)
    if not peaks:
        raise UsageError(f"Of no process in {chosen.path} it is known what memory it had in use.")
    if format is RowsFormat.JSON:
        contents = {part: peak.to_dict() for part, peak in peaks.items()}
        Output().write(several_processes.as_json(contents))
    elif format is RowsFormat.CSV:
        rows_of = {part: _rows(peak) for part, peak in peaks.items()}
        Output().write(several_processes.as_csv(_HEADING, rows_of))
    elif format is RowsFormat.MARKDOWN:
        Output().show(as_markdown(PEAKS_HEADING, peak_rows(peaks), 2))
    else:
        console_for(sys.stdout).print(as_peaks_table(peaks))


def _rows(peak: PeakMemory) -> list[list[object]]:
    return [[by, *astuple(group)] for by, groups in _groups(peak) for group in groups]


def _groups(peak: PeakMemory) -> list[tuple[str, tuple[PeakGroup, ...]]]:
    return [
        ("category", peak.by_category),
        ("module", peak.by_module),
        ("operator", peak.by_operator),
        ("stack", peak.by_stack),
        ("line", peak.by_line),
    ]
