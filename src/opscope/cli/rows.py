"""Results in the formats that every command prints: what ``--format`` may be, and rows as text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from enum import Enum

from opscope.printable import in_markdown, spreadsheet_cell


class RowsFormat(str, Enum):
    """What ``--format`` may be, in every command that has it for what it prints."""

    TABLE = "table"
    MARKDOWN = "md"
    JSON = "json"
    CSV = "csv"


def as_csv(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Lines of CSV that a spreadsheet takes for values, never for formulas."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(spreadsheet_cell, heading))
    writer.writerows(map(spreadsheet_cell, row) for row in rows)
    return file.getvalue()


def as_markdown(heading: Sequence[str], rows: Iterable[Sequence[object]], texts: int = 1) -> str:
    """A Markdown table; the first ``texts`` columns are words, the others numbers."""
    marks = ["---" if column < texts else "--:" for column in range(len(heading))]
    lines = [heading, marks, *([in_markdown(str(cell)) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
