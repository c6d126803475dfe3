"""``opscope replay``: run the operators of a trace again."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import Annotated

from opscope.base.memory_limit import no_more_than_is_free
from opscope.cli.parameters import Option
from opscope.cli.shown.console import Messages
from opscope.cli.shown.results import FormatOption, Result, RowsFormat, Section
from opscope.cli.trace_argument import (
    ProcessOption,
    RankOption,
    TraceArgument,
    choose_trace,
    load_chosen,
)
from opscope.errors import UsageError
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
    format: FormatOption = RowsFormat.TABLE,
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
    loaded = load_chosen(choose_trace(trace, rank, process))
    with messages.progress("replaying"), no_more_than_is_free():
        result = replay_trace(loaded, repeat=repeat, device=device)
    rows = result.replayed if row_limit < 0 else result.replayed[:row_limit]
    more = len(result.replayed) - len(rows)
    left_out = [f"{more} more rows: --row-limit -1 shows all"] if more else []
    Result(
        sections=[Section(columns=_HEADINGS, rows=list(map(_cells, rows)))],
        content=asdict(result),
        columns=_CSV_HEADINGS,
        rows=map(_csv_row, rows),
        about=[*left_out, *_summary(result)] if format is not RowsFormat.JSON else [],
    ).show(format)


_HEADINGS = ("Operator", "Input shapes", "Calls", "Recorded", "Replayed", "Replayed / recorded")
_CSV_HEADINGS = ("name", "calls", "recorded_ns", "replayed_ns", "input_shapes")


def _csv_row(row: ReplayedCall) -> list[object]:
    return [row.name, row.calls, row.recorded_ns, row.replayed_ns, json.dumps(row.input_shapes)]


def _cells(row: ReplayedCall) -> list[object]:
    return [
        row.name,
        str([shape for shape in row.input_shapes if shape]),
        f"{row.calls:,}",
        _microseconds(row.recorded_ns),
        _microseconds(row.replayed_ns),
        f"{row.replayed_ns / row.recorded_ns:.2f}" if row.recorded_ns else "-",
    ]


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
