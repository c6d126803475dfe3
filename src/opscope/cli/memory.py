"""``opscope memory``: what was in use when memory was fullest."""

from __future__ import annotations

import json
from enum import Enum
from typing import Annotated

import typer

from opscope.analysis.memory.peak import memory_at_peak
from opscope.cli.console import Output
from opscope.cli.trace_argument import RankOption, TraceArgument, open_trace
from opscope.export.peak_table import peak_table


class MemoryFormat(str, Enum):
    """How to print the peak."""

    TABLE = "table"
    JSON = "json"


def memory(
    trace: TraceArgument,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICE",
            help="Such as cpu or cuda:0.",
            show_default="the fullest accelerator, else cpu",
        ),
    ] = None,
    row_limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="Rows of each table to show.")
    ] = 8,
    format: Annotated[MemoryFormat, typer.Option(help="How to print it.")] = MemoryFormat.TABLE,
    rank: RankOption = None,
) -> None:
    """Show what was in use when memory was fullest: by category, module, operator and function.

    Record with --memory; --shapes adds categories and memory from before the recording, --modules
    and --stack say who allocated it. JSON has all groups, with sizes in bytes.
    """
    peak = memory_at_peak(open_trace(trace, rank), device)
    if format is MemoryFormat.JSON:
        Output().write(json.dumps(peak.to_dict(), indent=2) + "\n")
    else:
        Output().show(peak_table(peak, row_limit))
