"""``opscope memory``: what was in use when memory was fullest."""

from __future__ import annotations

import json
import sys
from dataclasses import astuple
from typing import Annotated

from opscope.analysis.memory.groups import PeakGroup
from opscope.analysis.memory.peak import PeakMemory, memory_at_peak
from opscope.cli.console import Output, console_for
from opscope.cli.parameters import Option
from opscope.cli.rows import RowsFormat, as_csv, as_markdown
from opscope.cli.trace_argument import RankOption, TraceArgument, open_trace
from opscope.export.peak_table import peak_table

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
) -> None:
    """Show what was in use when memory was fullest.

    By category, module, operator and function, largest first.

    Record with --memory; --shapes adds categories and memory from before the recording, --modules
    and --stack say who allocated it. The other formats have all groups, with sizes in bytes.
    """
    peak = memory_at_peak(open_trace(trace, rank)[1], device)
    if format is RowsFormat.JSON:
        Output().write(json.dumps(peak.to_dict(), indent=2) + "\n")
    elif format is RowsFormat.TABLE:
        Output().show(peak_table(peak, row_limit, console_for(sys.stdout).width))
    else:
        rows = [[by, *astuple(group)] for by, groups in _groups(peak) for group in groups]
        text = (
            as_csv(_HEADING, rows) if format is RowsFormat.CSV else as_markdown(_HEADING, rows, 2)
        )
        Output().write(text)


def _groups(peak: PeakMemory) -> list[tuple[str, tuple[PeakGroup, ...]]]:
    return [
        ("category", peak.by_category),
        ("module", peak.by_module),
        ("operator", peak.by_operator),
        ("stack", peak.by_stack),
        ("line", peak.by_line),
    ]
