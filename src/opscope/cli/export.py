"""Convert a trace to another format, or run its operators again.

For a folder with several processes, all go into one file, on one clock; in opscope's own format
each becomes a part of the folder.

--replay writes no file. It calls each distinct operator call on new tensors of the recorded shapes,
strides and types, outside the program, and measures it. Calls that cannot be repeated are listed
with the reason. Record with --shapes for this.
"""

from __future__ import annotations

import functools
import os
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from opscope.analysis.top_operators import DEFAULT_SORT, find_top_operators
from opscope.cli.parser import Parser, add_confidential, add_row_limit, example, whole_number
from opscope.cli.trace_argument import add_trace, choose_trace, open_traces
from opscope.cli.views.console import Messages
from opscope.cli.views.operator_table import csv_of_operators
from opscope.cli.views.results import RowsFormat, as_csv
from opscope.columns.confidential_copy import confidential_copy
from opscope.columns.trace_data import TraceData
from opscope.errors import TraceFormatError, UsageError
from opscope.export.all_formats import FORMATS
from opscope.export.collapsed_stacks import FORMAT as STACKS
from opscope.export.collapsed_stacks import METRICS, check_metric, write_own_stacks
from opscope.export.format import Format, find_format, format_of_file
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
"""Formats of ``Trace.export``, and two that have their own methods or commands."""


def options(parser: Parser) -> None:
    """Add the options, and the list of formats to the description."""
    formats = "\n".join(
        f"- {one.name} ({', '.join(one.suffixes)}): {one.help}" for one in ALL_FORMATS
    )
    parser.description = f"{parser.description}\n\n{formats}"
    add_trace(parser, period=False)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="File to write; replaces an existing file.",
    )
    what.add_argument(
        "--replay", action="store_true", help="Run the operators again and measure them."
    )
    names = [one.name for one in ALL_FORMATS]
    row_formats = [one.value for one in RowsFormat]
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        help=f"File format: {', '.join(names)} [default: from the name of FILE]; with --replay "
        f"the output format: {', '.join(row_formats)}.",
    )
    parser.add_argument(
        "--metric",
        metavar="METRIC",
        help=f"Weight of stacks: {', '.join(METRICS)}. [default: {METRICS[0]}]",
    )
    add_confidential(parser)
    group = parser.add_argument_group("with --replay")
    group.add_argument(
        "--repeat",
        metavar="N",
        type=whole_number(1),
        default=10,
        help="Number of measurements of each call. [default: 10]",
    )
    group.add_argument(
        "--device",
        metavar="DEVICE",
        help="Device to run on, such as cpu or cuda:1. [default: as recorded]",
    )
    add_row_limit(group, None, "Rows to show")
    parser.epilog = example("opscope export -o train.json.gz", "opscope export --replay --repeat 3")


def main(args: Namespace) -> None:
    """Write the file, or run the operators."""
    if args.replay:
        return _replay(args)
    file_format = (
        _format_of(args.output) if args.format is None else find_format(args.format, ALL_FORMATS)
    )
    write: Callable[[TraceData, str], object] = file_format.write
    if args.metric is not None:
        if file_format is not STACKS:
            raise UsageError(f"--metric is for stacks and has no effect on {file_format.name}.")
        check_metric(args.metric)
        write = functools.partial(write_own_stacks, metric=args.metric)
    messages, chosen = Messages(), choose_trace(args)
    is_confidential = args.no_arguments or args.hash_names
    if is_confidential and chosen.is_of_several:
        raise UsageError("--no-arguments and --hash-names need one process. Choose it with --rank.")
    if file_format is _TRACE and chosen.is_of_several:
        with messages.progress(f"writing {args.output}"):
            chosen.job.save(args.output)
        return messages.say(f"wrote {args.output}, {len(chosen.parts)} processes")
    trace = open_traces(chosen)
    if trace.is_empty:
        raise TraceFormatError(f"{chosen.path} contains no events, so no file was written.")
    if is_confidential:
        trace = confidential_copy(trace, names=args.hash_names)
    with messages.progress(f"writing {args.output}"):
        write(trace, os.fspath(args.output))
    messages.say(f"wrote {args.output}")


def _replay(args: Namespace) -> None:
    from opscope.cli.views.replay import replay

    row_formats = {one.value: one for one in RowsFormat}
    if args.format not in (None, *row_formats):
        raise UsageError(
            f"--format: {args.format!r} is not one of {', '.join(row_formats)}. See `opscope "
            "export --help`."
        )
    format = row_formats[args.format or RowsFormat.TABLE.value]
    replay(choose_trace(args), args.repeat, args.device, args.row_limit, format)


def _format_of(output: Path) -> Format:
    format = format_of_file(output, ALL_FORMATS)
    if format is None:
        raise UsageError(
            f"The format of {output.name!r} is unknown. Add --format with one "
            f"of: {', '.join(format.name for format in ALL_FORMATS)}."
        )
    return format
