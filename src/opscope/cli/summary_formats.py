"""A summary as a table for people, and as Markdown, JSON or CSV for everything else."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from opscope.analysis.doubts import NO_TIMES, doubts_text
from opscope.analysis.period import Period, Which
from opscope.cli import rows
from opscope.cli.caveats import caveats_of
from opscope.cli.narrow import GAP, width_of
from opscope.cli.top_operators import SummaryColumn, TopOperators
from opscope.printable import in_markdown, printable
from opscope.trace.ledger_rows import recorded_for

_TIMES = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
_SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_FLOPS = ((10**12, "T"), (10**9, "G"), (10**6, "M"))

_NOT_COUNTED = "--"  # unknown (no formula, or shapes not recorded) rather than 0

_NARROWEST = 24
_LEFT_OUT_FIRST = (
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


def as_table(top: TopOperators, width: int) -> tuple[RenderableType, list[str]]:
    """A table at most ``width`` characters wide, and the headings of columns left out for that.

    What it speaks of comes first.

    Numbers are never cut: names are, and columns are left out.
    """
    titles = ["Name", *(["Input shapes"] if _has_shapes(top) else [])]
    shown = _rows(top)
    headings = titles + _headings(top)
    cells_of = zip(*shown, strict=True) if shown else [()] * len(headings)
    columns = list(zip(headings, cells_of, strict=True))
    left, numbers = columns[: len(titles)], columns[len(titles) :]
    needed = width_of([(title, tuple(c[:_NARROWEST] for c in cells)) for title, cells in left])
    left_out = []
    for heading in _LEFT_OUT_FIRST:
        if needed + width_of(numbers) <= width:
            break
        if heading != top.sorted_by.heading and heading in dict(numbers):
            numbers = [column for column in numbers if column[0] != heading]
            left_out.append(heading)
    room = max((width - width_of(numbers)) // len(left) - GAP, _NARROWEST)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, _ in left:
        table.add_column(title, overflow="ellipsis", no_wrap=True, max_width=min(room, 60))
    for heading, _ in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    for cells in zip(*(cells for _, cells in left + numbers), strict=True):
        table.add_row(*map(Text, cells))
    return Group(*(Text(line, "dim") for line in what_it_is_of(top.period)), table), left_out


def as_markdown(top: TopOperators) -> str:
    """A Markdown table, with the same cells as the one for the terminal."""
    headings = ["Name", *(["Input shapes"] if _has_shapes(top) else []), *_headings(top)]
    texts = len(headings) - len(_headings(top))
    about = "".join(f"{in_markdown(line)}\n\n" for line in what_it_is_of(top.period))
    return about + rows.as_markdown(headings, _rows(top), texts)


def what_it_is_of(period: Period) -> list[str]:
    """What a table speaks of, and what it leaves out."""
    if not period.trace.has_times:
        return [f"Here {NO_TIMES}: calls, shapes, FLOPs and bytes are counted."]
    about = str(period)
    of_time = f"{about[0].upper()}{about[1:]}; Self CPU % is of that time"
    lines = ["; ".join([of_time, *caveats_of(period.trace)]) + "."]
    if period.which is Which.STEADY and period.start_up.is_any:
        shown_by = Which.START_UP if period.start_up.took_ns else Which.ALL
        lines.append(f"Left out: {period.start_up} (--period {shown_by.value} shows it).")
    if recorded := recorded_for(period.trace.ledger):
        lines.append(
            f"Recorded: {recorded}, to stay below the budget; counts and times are of those."
        )
    return lines


def as_json(top: TopOperators, about: dict[str, Any], below: dict[str, Any]) -> str:
    """One JSON object: ``about`` the trace, all columns of the rows, and what is ``below`` them."""
    period = top.period
    content = {
        **about,
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
        **below,
    }
    return json.dumps(content, indent=2) + "\n"


def as_csv(top: TopOperators) -> str:
    """All columns under their keys; shapes as JSON text. What waits follows where all is wanted."""
    shown = [*top.rows, *([] if top.left_out else top.waiting)]
    keys = list(shown[0]) if shown else []
    values = ([json.dumps(v) if isinstance(v, list) else v for v in r.values()] for r in shown)
    return rows.as_csv(keys, values)


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
    """The cells of all rows; those of what waits are marked, and no share of the work."""
    return [_cells(top, row) for row in top.rows] + [
        _cells(top, row, is_work=False) for row in top.waiting
    ]


def _cells(top: TopOperators, row: dict[str, Any], is_work: bool = True) -> list[str]:
    cells = [printable(row["name"]) if is_work else f"(waiting) {printable(row['name'])}"]
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
    """Three or four digits and the largest unit that leaves something before the point."""
    for size, unit in scales:
        if abs(value) >= size:
            return f"{value / size:.2f} {unit}"
    return f"{value} {smallest}".rstrip()
