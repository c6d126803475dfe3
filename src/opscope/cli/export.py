"""``opscope export``: a trace in the format of another tool."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from opscope.analysis.top_operators import DEFAULT_SORT, find_top_operators
from opscope.cli.parameters import Option
from opscope.cli.part_option import PartOption, RangeOption, StepsOption
from opscope.cli.shown.console import Messages
from opscope.cli.shown.operator_table import csv_of_operators
from opscope.cli.shown.results import as_csv
from opscope.cli.trace_argument import (
    ProcessOption,
    RankOption,
    TraceArgument,
    choose_trace,
    open_traces,
)
from opscope.columns.trace_data import TraceData
from opscope.errors import TraceFormatError, UsageError
from opscope.export.collapsed_stacks import FORMAT as STACKS
from opscope.export.collapsed_stacks import METRICS, check_metric, write_own_stacks
from opscope.export.format import Format, find_format, format_of_file
from opscope.export.formats import FORMATS
from opscope.export.output_file import write_file
from opscope.jobs.saving import save_trace
from opscope.timeline.period import period_of


def _write_averages(trace: TraceData, path: str) -> None:
    top = find_top_operators(period_of(trace), sort_by=DEFAULT_SORT, row_limit=-1)
    write_file(path, [as_csv(*csv_of_operators(top)).encode()])


_TRACE = Format(
    name="trace",
    suffixes=(".opscope",),
    help="opscope's own folder, for example from another profiler's Chrome traces",
    write=save_trace,
)

ALL_FORMATS = (
    *FORMATS,
    Format(
        name="csv",
        suffixes=(".csv", ".csv.gz"),
        help="averages by operator, as `opscope summary --format csv --row-limit -1`",
        write=_write_averages,
    ),
    _TRACE,
)
"""Those of the Python interface, and what has a method or a command of its own there."""


def export(
    trace: TraceArgument = None,
    *,
    output: Annotated[
        Path,
        Option(names=("--output", "-o"), metavar="FILE", help="What to write; replaced if there."),
    ],
    format: Annotated[
        str | None,
        Option(
            metavar="FORMAT",
            help=f"What to write: {', '.join(format.name for format in ALL_FORMATS)}.",
            default="by the name of FILE",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        Option(
            metavar="METRIC", help=f"Weight of stacks: {', '.join(METRICS)}.", default=METRICS[0]
        ),
    ] = None,
    rank: RankOption = None,
    process: ProcessOption = None,
    range: RangeOption = None,
    steps: StepsOption = None,
) -> None:
    """Write a trace in a format that other tools read.

    Of a folder with several processes and none chosen, all are in one file, on one clock; in
    opscope's own format each is a part of the folder.
    """
    chosen = _format_of(output) if format is None else find_format(format, ALL_FORMATS)
    write: Callable[[TraceData, str], object] = chosen.write
    if metric is not None:
        if chosen is not STACKS:
            raise UsageError(f"--metric weighs stacks and means nothing for {chosen.name}.")
        check_metric(metric)
        write = functools.partial(write_own_stacks, metric=metric)
    messages, part = Messages(), PartOption(range, steps)
    if chosen is _TRACE and part.is_all:
        which = choose_trace(trace, rank, process)
        if which.is_of_several:
            with messages.progress(f"writing {output}"):
                which.job.save(output)
            return messages.say(f"wrote {output}, {len(which.parts)} processes")
    trace, loaded = open_traces(trace, rank, process, part)
    if loaded.is_empty:
        raise TraceFormatError(f"{trace} holds no event, so nothing was written.")
    with messages.progress(f"writing {output}"):
        write(loaded, os.fspath(output))
    messages.say(f"wrote {output}")


# The list of formats is made of the formats themselves. Lines that begin at the margin are no part
# of a docstring's indentation: it is taken away before they are added.
export.__doc__ = f"{inspect.getdoc(export)}\n\n" + "\n".join(
    f"- {format.name} ({', '.join(format.suffixes)}): {format.help}" for format in ALL_FORMATS
)


def _format_of(output: Path) -> Format:
    format = format_of_file(output, ALL_FORMATS)
    if format is None:
        raise UsageError(
            f"The name {output.name!r} does not say which format is meant. Add --format with one "
            f"of: {', '.join(format.name for format in ALL_FORMATS)}."
        )
    return format
