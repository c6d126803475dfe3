"""Results of commands, and their output formats."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TextIO, TypeVar

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from opscope.base.printable import in_markdown, printable, spreadsheet_cell
from opscope.cli.parser import one_of
from opscope.cli.views.console import Messages, Output, console_for, wraps

_Row = TypeVar("_Row")
_GAP = 2
_NARROWEST, _WIDEST = 24, 72
"""Minimum and maximum width of a column of text."""
_SHORT = 14
_NUMBER = re.compile(r"[-+±]? ?\d[\d.,]*( ?[^\d\s]{1,9})?( \+ .*)?|-{0,2}")
"""Cells with a number and a unit, or without a value."""


class RowsFormat(str, Enum):
    """Values of ``--format``."""

    TABLE = "table"
    MARKDOWN = "md"
    JSON = "json"
    CSV = "csv"


def add_format(parser: ArgumentParser) -> None:
    """Add ``--format``."""
    parser.add_argument(
        "--format",
        default=RowsFormat.TABLE,
        **one_of(RowsFormat),
        help="Output format. [default: table]",
    )


@dataclass(frozen=True, kw_only=True)
class Section:
    """A table with title and notes, for people."""

    title: str = ""
    style: str = "bold"  # style of the title
    above: Sequence[str] = ()  # sentences above the table
    columns: Sequence[str] = ()  # headings
    rows: Sequence[Sequence[object]] = ()
    notes: Sequence[str] = ()  # paragraphs below; with leading spaces, they are list items
    optional: Sequence[str] = ()  # columns to leave out of a narrow terminal, in this order
    wraps: bool = False  # wrap long cells; otherwise they are cut


@dataclass(frozen=True, kw_only=True)
class Result:
    """Results of a command for one process or several."""

    sections: Sequence[Section] = ()  # for tables and Markdown
    content: object = field(default_factory=dict)  # for JSON
    columns: Sequence[str] = ()  # headings of CSV
    rows: Iterable[Sequence[object]] = ()  # values of CSV
    lines: Sequence[str] = ()  # sentences at the end; with CSV on standard error
    about: Sequence[str] = ()  # messages for standard error, with all formats
    notes: Sequence[str] = ()  # more messages; equal ones of several processes are printed once
    overview: Sequence[Mapping[str, str]] = ()  # rows for a table of several processes, by heading
    weight: float = 0.0  # sorts the processes in that table, largest first
    shares: Mapping[str, float] = field(default_factory=dict)  # compared between processes, by name

    def show(self, format: RowsFormat) -> None:
        """Print the result."""
        messages = Messages()
        if format is RowsFormat.JSON:
            Output().write(json.dumps(self.content, indent=2) + "\n")
        elif format is RowsFormat.CSV:
            Output().write(as_csv(self.columns, self.rows))
            for line in self.lines:
                messages.say(line)
        elif format is RowsFormat.MARKDOWN:
            Output().show(as_markdown(self.sections, self.lines))
        elif self.sections or self.lines:
            console = console_for(sys.stdout)
            text = as_text(self.sections, console.width, self.lines, wraps(console))
            console.print(text, crop=wraps(console))
        for line in (*self.about, *self.notes):
            messages.say(line)


def limited(
    rows: Sequence[_Row], limit: int, what: str = "rows"
) -> tuple[Sequence[_Row], list[str]]:
    """The first ``limit`` rows (-1: all), and a sentence about the others, if any."""
    shown = rows if limit < 0 else rows[:limit]
    more = len(rows) - len(shown)
    return shown, [f"{more:,} more {what}: --row-limit -1 shows all"] if more else []


def as_text(
    sections: Sequence[Section], width: int, lines: Sequence[str] = (), is_wrapped: bool = True
) -> RenderableType:
    """Text for a terminal of this width; ``is_wrapped``: wrap sentences."""
    shown: list[RenderableType] = []
    for section in (*sections, *([Section(notes=lines)] if lines else [])):
        shown += [Text("")] if shown else []
        if section.title:
            shown.append(Text(printable(section.title), section.style))
        shown += [_paragraph(line, is_wrapped, "dim") for line in section.above]
        if section.rows:
            shown.append(table_of(section, width))
        shown += [_paragraph(line, is_wrapped) for line in section.notes]
    return Group(*shown)


def table_of(section: Section, width: int) -> RenderableType:
    """The table of a section: cuts or wraps text, never numbers; leaves out optional columns."""
    cells = [[_cell(cell) for cell in row] for row in section.rows]
    columns = list(zip(section.columns, zip(*cells, strict=True), strict=True))
    hidden = []
    for heading in section.optional:
        if sum(map(_least_width, columns)) > width and heading in dict(columns):
            columns = [column for column in columns if column[0] != heading]
            hidden.append(heading)
    widths = _widths(columns, width)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, cells_in in columns:
        if are_numbers(cells_in):
            table.add_column(Text(heading), justify="right", no_wrap=True)
        elif section.wraps:
            is_short = _longest(cells_in) <= _SHORT
            table.add_column(Text(heading), overflow="fold", no_wrap=is_short)
        else:
            table.add_column(
                Text(heading), overflow="ellipsis", no_wrap=True, max_width=widths[heading]
            )
    for row in zip(*(cells_in for _, cells_in in columns), strict=True):
        table.add_row(*map(Text, row))
    if not hidden:
        return table
    return Group(
        table,
        Text(f"columns not shown, because the terminal is too narrow: {', '.join(hidden)}", "dim"),
    )


def as_markdown(sections: Sequence[Section], lines: Sequence[str] = ()) -> str:
    """Headings, paragraphs, tables and lists."""
    parts: list[str] = []
    for section in sections:
        parts += [f"## {in_markdown(section.title)}"] if section.title else []
        parts += map(in_markdown, section.above)
        if section.rows:
            parts.append(_markdown_table(section))
        parts += _paragraphs(section.notes)
    return "\n\n".join([*parts, *_paragraphs(lines)]) + "\n" if parts or lines else ""


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """CSV text, whose cells a spreadsheet does not execute as formulas."""
    file = io.StringIO()
    write_csv(file, columns, rows)
    return file.getvalue()


def write_csv(
    file: TextIO | Output, columns: Sequence[str], rows: Iterable[Sequence[object]]
) -> None:
    """Write CSV line by line."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(spreadsheet_cell, columns))
    writer.writerows(map(spreadsheet_cell, row) for row in rows)


def are_numbers(cells: Sequence[object]) -> bool:
    """Whether all cells of a column are numbers."""
    return bool(cells) and all(
        isinstance(cell, int | float) or _NUMBER.fullmatch(_cell(cell)) for cell in cells
    )


def _cell(value: object) -> str:
    return "" if value is None else printable(str(value))


def _longest(cells: Sequence[str]) -> int:
    return max(map(len, cells), default=0)


def _least_width(column: tuple[str, Sequence[str]]) -> int:
    heading, cells = column
    longest = _longest(cells) if are_numbers(cells) else min(_longest(cells), _NARROWEST)
    return max(len(heading), longest) + _GAP


def _widths(columns: Sequence[tuple[str, Sequence[str]]], width: int) -> dict[str, int]:
    """Widths of text columns: long ones share the remaining width."""
    words = [column for column in columns if not are_numbers(column[1])]
    free_width = width - sum(_least_width(column) for column in columns if column not in words)
    widths: dict[str, int] = {}
    for heading, cells in sorted(words, key=lambda column: _longest(column[1])):
        share = free_width // (len(words) - len(widths)) - _GAP
        widths[heading] = min(max(share, _SHORT), _longest([heading, *cells]), _WIDEST)
        free_width -= widths[heading] + _GAP
    return widths


def _paragraph(text: str, is_wrapped: bool, style: str = "") -> RenderableType:
    if not is_wrapped:
        return Text(printable(text), style, no_wrap=True, overflow="ignore")
    plain = text.lstrip(" ")
    return Padding(Text(printable(plain), style), (0, 0, 0, len(text) - len(plain)), expand=False)


def _paragraphs(notes: Iterable[str]) -> list[str]:
    """Notes in Markdown; indented ones become a list."""
    parts: list[str] = []
    is_list = False
    for note in notes:
        plain = note.lstrip(" ")
        depth = (len(note) - len(plain)) // 2
        text = in_markdown(plain)
        item = f"{'  ' * (depth - 1)}- {text}" if depth else text
        if depth and is_list:
            parts[-1] += f"\n{item}"
        else:
            parts.append(item)
        is_list = depth > 0
    return parts


def _markdown_table(section: Section) -> str:
    columns = list(zip(*section.rows, strict=True))
    marks = ["--:" if are_numbers(cells) else "---" for cells in columns]
    rows = ([in_markdown(_cell(cell)) for cell in row] for row in section.rows)
    heading = map(in_markdown, section.columns)
    return "\n".join(f"| {' | '.join(line)} |" for line in (heading, marks, *rows))
