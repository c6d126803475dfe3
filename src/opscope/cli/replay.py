"""``opscope replay``: run the operators of a trace again."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict
from typing import Annotated, Any

from rich.table import Table
from rich.text import Text

from opscope.cli.console import Messages, Output, console_for
from opscope.cli.parameters import Option
from opscope.cli.rows import RowsFormat, as_csv, as_markdown
from opscope.cli.trace_argument import ProcessOption, RankOption, TraceArgument, open_trace
from opscope.errors import UsageError
from opscope.memory_limit import no_more_than_is_free
from opscope.printable import printable
from opscope.replay import Replay, ReplayedCall
from opscope.replay import replay as replay_trace

DEFAULT_ROWS = 30


def replay(
    trace: TraceArgument = None,
    repeat: Annotated[
        int, Option(metavar="N", minimum=1, help="How often each call is timed.")
    ] = 10,
    device: Annotated[
        str | None,
        Option(
            metavar="DEVICE",
            help="Run on this device, such as cpu or cuda:1.",
            default="where it was recorded",
        ),
    ] = None,
    row_limit: Annotated[int, Option(metavar="N", help="Rows to show; -1 for all.")] = DEFAULT_ROWS,
    format: Annotated[RowsFormat, Option(help="How to print it.")] = RowsFormat.TABLE,
    rank: RankOption = None,
    process: ProcessOption = None,
) -> None:
    """Run the operators of a trace again, and compare what they take.

    Takes any trace that has arguments of operators (``--shapes``).
    Every distinct call is made on fresh tensors of the recorded shapes, strides and types, outside
    the program it came from, and timed. What cannot be made again is named, with the reason.
    """
    if row_limit < -1:
        raise UsageError("--row-limit is a number of rows, or -1 for all.")
    messages = Messages()
    _, loaded = open_trace(trace, rank, process)
    with messages.progress("replaying"), no_more_than_is_free():
        result = replay_trace(loaded, repeat=repeat, device=device)
    if format is RowsFormat.JSON:
        Output().write(json.dumps(asdict(result), indent=2) + "\n")
        return
    rows = result.replayed if row_limit < 0 else result.replayed[:row_limit]
    if format is RowsFormat.TABLE:
        console_for(sys.stdout).print(_table(rows))
    else:
        print_rows = as_csv if format is RowsFormat.CSV else as_markdown
        Output().write(print_rows(_COLUMNS, [_cells(row) for row in rows]))
    if len(rows) < len(result.replayed):
        messages.say(f"{len(result.replayed) - len(rows)} more rows: --row-limit -1 shows all")
    for line in _summary(result):
        messages.say(line)


_COLUMNS = ("name", "calls", "recorded_ns", "replayed_ns", "input_shapes")


def _cells(row: ReplayedCall) -> list[Any]:
    return [row.name, row.calls, row.recorded_ns, row.replayed_ns, json.dumps(row.input_shapes)]


def _table(rows: list[ReplayedCall]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Operator", overflow="ellipsis", no_wrap=True, max_width=40)
    table.add_column("Input shapes", overflow="ellipsis", no_wrap=True, max_width=50)
    for heading in ("Calls", "Recorded", "Replayed", "Replayed / recorded"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            Text(printable(row.name)),
            Text(str([shape for shape in row.input_shapes if shape])),
            f"{row.calls:,}",
            _microseconds(row.recorded_ns),
            _microseconds(row.replayed_ns),
            f"{row.replayed_ns / row.recorded_ns:.2f}" if row.recorded_ns else "-",
        )
    return table


def _microseconds(nanoseconds: int | None) -> str:
    return "-" if nanoseconds is None else f"{nanoseconds / 1000:,.1f} µs"


def _summary(result: Replay) -> list[str]:
    calls = sum(call.calls for call in result.replayed)
    replayed_ms = sum(call.calls * call.replayed_ns for call in result.replayed) / 1e6
    said = f"{calls:,} calls, {len(result.replayed):,} of them distinct: {replayed_ms:,.1f} ms now"
    recorded = [call.calls * call.recorded_ns for call in result.replayed if call.recorded_ns]
    if recorded:
        said += f", {sum(recorded) / 1e6:,.1f} ms when recorded"
    else:
        said += "; the file does not say how long they took when recorded"
    lines = [said]
    refused: Counter[tuple[str, str, bool]] = Counter()
    for call in result.refused:
        refused[call.name, call.reason, call.has_inner] += call.calls
    for (name, reason, has_inner), count in refused.items():
        instead = "; what it called was replayed instead" if has_inner else ""
        lines.append(f"not replayed: {name} ({count:,} calls): {reason}{instead}")
    return lines
