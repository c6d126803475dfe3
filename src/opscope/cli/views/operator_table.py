"""The operators of a summary as a table, JSON and CSV."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from opscope.analysis.top_operators import SummaryColumn, TopOperators
from opscope.cli.views.results import Section, as_text
from opscope.columns.ledger import recorded_for
from opscope.findings.program_time import busy_text, waited_share
from opscope.timeline.doubts import NO_TIMES, doubts_text
from opscope.timeline.period import Period, Which

if TYPE_CHECKING:
    from rich.console import RenderableType

_TIMES = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
_SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_FLOPS = ((10**12, "T"), (10**9, "G"), (10**6, "M"))

_NOT_COUNTED = "--"  # unknown (no formula, or shapes not recorded) rather than 0

_OPTIONAL_COLUMNS = (
    "CPU mean",
    "Device mem",
    "CPU mem",
    "Device total",
    "FLOPs",
    "Self device mem",
    "Self CPU mem",
    "CPU total",
    "Self device",
)


def operator_section(top: TopOperators) -> Section:
    """The table, and above it sentences about its period."""
    return Section(
        above=describe_period(top.period),
        columns=["Name", *(["Input shapes"] if _has_shapes(top) else []), *_headings(top)],
        rows=_rows(top),
        optional=[heading for heading in _OPTIONAL_COLUMNS if heading != top.sorted_by.heading],
    )


def operator_text(top: TopOperators, width: int) -> RenderableType:
    """The section for a terminal of this width."""
    return as_text([operator_section(top)], width)


def describe_period(period: Period) -> list[str]:
    """Sentences about the period of the table, and what it leaves out."""
    if not period.trace.has_times:
        return [f"Here {NO_TIMES}: calls, shapes, FLOPs and bytes are counted."]
    about = str(period)
    sentence = f"{about[0].upper()}{about[1:]}; Self CPU % refers to this time"
    lines = ["; ".join(filter(None, (sentence, busy_text(waited_share(period.trace))))) + "."]
    if period.which is Which.STEADY and period.start_up.is_any:
        shown_by = Which.START_UP if period.start_up.took_ns else Which.ALL
        lines.append(f"Not included: {period.start_up} (shown by --period {shown_by.value}).")
    if recorded := recorded_for(period.trace.ledger):
        lines.append(
            f"Recorded: {recorded}, to stay below the budget; counts and times refer to these."
        )
    return lines


def operator_content(top: TopOperators) -> dict[str, Any]:
    """Period and all columns of the rows, for JSON."""
    period = top.period
    return {
        "period": {
            "which": period.which.value,
            "start_ns": period.start_ns if period.trace.has_times else None,
            "wall_ns": period.wall_ns if period.trace.has_times else None,
            "start_up_ns": period.start_up.took_ns,
            "doubts": doubts_text(period.trace),
        },
        "cpu_self_ns_of_all": top.total_cpu_ns if period.trace.has_times else None,
        "rows_left_out": top.left_out,
        "rows": top.rows,
        "waiting": top.waiting,
    }


def csv_of_operators(top: TopOperators) -> tuple[list[str], Iterable[Sequence[object]]]:
    """Headings and rows of the CSV; shapes as JSON text, waiting events last."""
    shown = [*top.rows, *([] if top.left_out else top.waiting)]
    values = ([json.dumps(v) if isinstance(v, list) else v for v in r.values()] for r in shown)
    return list(shown[0]) if shown else [], values


def _has_shapes(top: TopOperators) -> bool:
    return bool(top.rows) and "input_shapes" in top.rows[0]


def _headings(top: TopOperators) -> list[str]:
    headings = []
    for column in top.used:
        headings.append(column.heading)
        if column.key == "cpu_self_ns":
            headings.append("Self CPU %")
    return headings


def _rows(top: TopOperators) -> list[list[str]]:
    """Cells of all rows; rows of waiting events are last, marked, and without a share."""
    return [_cells(top, row) for row in top.rows] + [
        _cells(top, row, is_work=False) for row in top.waiting
    ]


def _cells(top: TopOperators, row: dict[str, Any], is_work: bool = True) -> list[str]:
    cells = [row["name"] if is_work else f"(waiting) {row['name']}"]
    if "input_shapes" in row:
        cells.append(str(row["input_shapes"]))
    for column in top.used:
        cells.append(_shown(row[column.key], column))
        if column.key == "cpu_self_ns":
            cells.append(f"{row[column.key] / top.period.wall_ns:.1%}" if is_work else _NOT_COUNTED)
    return cells


def _shown(value: int, column: SummaryColumn) -> str:
    if column.unit == "ns":
        return _scaled(value, _TIMES, "ns")
    if column.unit == "bytes":
        return _scaled(value, _SIZES, "B")
    if column.unit == "flops":
        return _scaled(value, _FLOPS, "") if value else _NOT_COUNTED
    return f"{value:,}"


def _scaled(value: int, scales: tuple[tuple[int, str], ...], smallest: str) -> str:
    """``value`` in the largest unit in which it is at least 1."""
    for size, unit in scales:
        if abs(value) >= size:
            return f"{value / size:.2f} {unit}"
    return f"{value} {smallest}".rstrip()
