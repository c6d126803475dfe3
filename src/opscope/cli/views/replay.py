"""``opscope export --replay``: run the operators of a trace again."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict

from opscope.base.memory_limit import no_more_than_is_free
from opscope.cli.trace_argument import Chosen, load_chosen
from opscope.cli.views.console import Messages
from opscope.cli.views.results import Result, RowsFormat, Section, limited
from opscope.replay.replay import Replay, ReplayedCall
from opscope.replay.replay import replay as replay_trace

_MOST_ROWS = 30


def replay(
    chosen: Chosen, repeat: int, device: str | None, row_limit: int | None, format: RowsFormat
) -> None:
    """Run every distinct call ``repeat`` times on new tensors, and print the durations."""
    loaded = load_chosen(chosen)
    with Messages().progress("replaying"), no_more_than_is_free():
        result = replay_trace(loaded, repeat=repeat, device=device)
    most = _MOST_ROWS if row_limit is None else row_limit
    rows, left_out = limited(result.replayed, most)
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
    summary = (
        f"{calls:,} calls, {len(result.replayed):,} of them distinct: {replayed_ms:,.1f} ms now"
    )
    recorded = [call.calls * call.recorded_ns for call in result.replayed if call.recorded_ns]
    if recorded:
        summary += f", {sum(recorded) / 1e6:,.1f} ms when recorded"
    else:
        summary += "; the file has no recorded times"
    lines = [summary]
    refused: Counter[tuple[str, str, bool]] = Counter()
    for call in result.refused:
        refused[call.name, call.reason, call.has_inner] += call.calls
    for (name, reason, has_inner), count in refused.items():
        instead = "; its inner calls were replayed instead" if has_inner else ""
        lines.append(f"not replayed: {name} ({count:,} calls): {reason}{instead}")
    return lines
