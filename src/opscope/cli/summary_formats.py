"""A summary as a table for people, and as Markdown, JSON or CSV for everything else."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from rich.table import Table
from rich.text import Text

from opscope.cli.top_operators import Column, TopOperators

_TIMES = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
_SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_FLOPS = ((10**12, "T"), (10**9, "G"), (10**6, "M"))


def as_table(top: TopOperators) -> Table:
    """A table for the terminal; names are cut before numbers are."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Name", overflow="ellipsis", no_wrap=True, min_width=20, max_width=60)
    if _has_shapes(top):
        table.add_column("Input shapes", overflow="fold", max_width=60)
    for heading in _headings(top):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in top.rows:
        table.add_row(*(Text(cell) for cell in _cells(top, row)))
    return table


def as_markdown(top: TopOperators) -> str:
    """A Markdown table, with the same cells as the one for the terminal."""
    headings = ["Name", *(["Input shapes"] if _has_shapes(top) else []), *_headings(top)]
    left = len(headings) - len(_headings(top))
    lines = [
        _markdown_line(headings),
        _markdown_line(["---"] * left + ["--:"] * (len(headings) - left)),
    ]
    lines += [_markdown_line(_cells(top, row)) for row in top.rows]
    return "\n".join(lines) + "\n"


def as_json(top: TopOperators, about: dict[str, Any]) -> str:
    """One JSON object: ``about`` the trace, then all columns of the rows, times in nanoseconds."""
    content = {
        **about,
        "cpu_self_ns_of_all": top.total_cpu_ns,
        "rows_left_out": top.left_out,
        "rows": top.rows,
    }
    return json.dumps(content, indent=2) + "\n"


def as_csv(top: TopOperators) -> str:
    """All columns under their keys; shapes as JSON text."""
    file = io.StringIO()
    keys = list(top.rows[0]) if top.rows else []
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(keys)
    for row in top.rows:
        writer.writerow(json.dumps(v) if isinstance(v, list) else v for v in row.values())
    return file.getvalue()


def _has_shapes(top: TopOperators) -> bool:
    return bool(top.rows) and "input_shapes" in top.rows[0]


def _headings(top: TopOperators) -> list[str]:
    headings = []
    for column in top.used:
        headings.append(column.heading)
        if column.key == "cpu_self_ns":
            headings.append("Self CPU %")
    return headings


def _cells(top: TopOperators, row: dict[str, Any]) -> list[str]:
    cells = [row["name"]]
    if "input_shapes" in row:
        cells.append(str(row["input_shapes"]))
    for column in top.used:
        cells.append(_shown(row[column.key], column))
        if column.key == "cpu_self_ns":
            cells.append(f"{row[column.key] / top.total_cpu_ns:.1%}")
    return cells


def _shown(value: int, column: Column) -> str:
    if column.unit == "ns":
        return _scaled(value, _TIMES, "ns")
    if column.unit == "bytes":
        return _scaled(value, _SIZES, "B")
    if column.unit == "flops":
        return _scaled(value, _FLOPS, "")
    return f"{value:,}"


def _scaled(value: int, scales: tuple[tuple[int, str], ...], smallest: str) -> str:
    """Three or four digits and the largest unit that leaves something before the point."""
    for size, unit in scales:
        if abs(value) >= size:
            return f"{value / size:.2f} {unit}"
    return f"{value} {smallest}".rstrip()


def _markdown_line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
