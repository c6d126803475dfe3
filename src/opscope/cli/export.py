"""``opscope export``: a trace in the format of another tool."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from opscope.cli.console import Messages
from opscope.cli.summary_formats import as_csv
from opscope.cli.top_operators import DEFAULT_SORT, find_top_operators
from opscope.cli.trace_argument import RankOption, TraceArgument, open_trace
from opscope.errors import TraceFormatError, UsageError
from opscope.export.chakra import write_chakra
from opscope.export.chrome.writer import write_chrome_trace
from opscope.export.execution_trace import write_execution_trace
from opscope.export.memory_timeline import write_memory_timeline
from opscope.export.output_file import write_file
from opscope.export.perfetto import write_perfetto
from opscope.export.speedscope import write_speedscope
from opscope.export.stacks import METRICS, check_metric, write_stacks
from opscope.trace.trace import Trace


class Format(str, Enum):
    """Formats that a trace can be written in."""

    CHROME = "chrome"
    PERFETTO = "perfetto"
    SPEEDSCOPE = "speedscope"
    EXECUTION_TRACE = "execution-trace"
    CHAKRA = "chakra"
    STACKS = "stacks"
    MEMORY_TIMELINE = "memory-timeline"
    CSV = "csv"
    TRACE = "trace"


SUFFIXES: dict[Format, tuple[str, ...]] = {
    Format.EXECUTION_TRACE: (".et.json", ".et.json.gz"),
    Format.CHAKRA: (".et",),
    Format.SPEEDSCOPE: (".speedscope.json", ".speedscope.json.gz"),
    Format.MEMORY_TIMELINE: (".memory.json", ".memory.json.gz", ".memory.html", ".raw.json.gz"),
    Format.CHROME: (".json", ".json.gz"),
    Format.PERFETTO: (".pftrace", ".pftrace.gz", ".perfetto-trace"),
    Format.STACKS: (".txt", ".stacks", ".folded"),
    Format.CSV: (".csv", ".csv.gz"),
    Format.TRACE: (".opscope",),
}
"""File names that say which format is meant; the first that fits counts."""


def export(
    trace: TraceArgument,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="What to write; replaced if there."),
    ],
    format: Annotated[
        Format | None, typer.Option(help="Which format.", show_default="by the name of FILE")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(metavar="METRIC", help="Weight of stacks.", show_default=METRICS[0]),
    ] = None,
    rank: RankOption = None,
) -> None:
    """Write a trace in a format that other tools read.

    - chrome: for chrome://tracing, Perfetto and the tools that read torch.profiler's files
    - perfetto: Perfetto's own format, a tenth of the size
    - speedscope: for speedscope.app, a flame chart per thread
    - execution-trace: operators with arguments and results, as torch's ExecutionTraceObserver
    - chakra: mlcommons/chakra's graph of operators and what they wait for, for simulators
    - stacks: collapsed stacks, for flame graphs
    - memory-timeline: memory by category over time, in the files of torch's
      export_memory_timeline; .html is a page and .png a picture
    - csv: averages by operator, as `opscope summary --format csv --row-limit -1`
    - trace: opscope's own folder, for example from another profiler's Chrome trace
    """
    chosen = format or _format_of(output)
    if metric is not None:
        if chosen is not Format.STACKS:
            raise UsageError(f"--metric weighs stacks and means nothing for {chosen.value}.")
        check_metric(metric)
    messages = Messages()
    loaded = open_trace(trace, rank)
    if len(loaded.events) == 0:
        raise TraceFormatError(f"{trace} holds no event, so nothing was written.")
    with messages.progress(f"writing {output}"):
        _writer(chosen, metric or METRICS[0])(loaded, output)
    messages.say(f"wrote {output}")


def _format_of(output: Path) -> Format:
    for format, suffixes in SUFFIXES.items():
        if output.name.endswith(suffixes):
            return format
    raise UsageError(
        f"The name {output.name!r} does not say which format is meant. Add --format with one of: "
        f"{', '.join(format.value for format in Format)}."
    )


def _writer(format: Format, metric: str) -> Callable[[Trace, Path], object]:
    if format is Format.CHROME:
        return write_chrome_trace
    if format is Format.PERFETTO:
        return write_perfetto
    if format is Format.SPEEDSCOPE:
        return write_speedscope
    if format is Format.EXECUTION_TRACE:
        return write_execution_trace
    if format is Format.CHAKRA:
        return write_chakra
    if format is Format.STACKS:
        return lambda trace, path: write_stacks(trace, path, metric)
    if format is Format.MEMORY_TIMELINE:
        return write_memory_timeline
    if format is Format.CSV:
        return _write_averages
    return lambda trace, path: trace.save(path)


def _write_averages(trace: Trace, path: Path) -> None:
    top = find_top_operators(trace, sort_by=DEFAULT_SORT, row_limit=-1)
    write_file(path, [as_csv(top).encode()])
