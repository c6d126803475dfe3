"""Text that fits a terminal of any width: names give way, and numbers and values stay whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

GAP = 2
_NARROWEST = 12


def width_of(columns: Iterable[tuple[str, Sequence[str]]]) -> int:
    """What columns take, each a heading and its cells."""
    return sum(max(map(len, (heading, *cells))) + GAP for heading, cells in columns)


def numbers_table(
    heading: str, names: Sequence[str], numbers: Sequence[tuple[str, Sequence[str]]], width: int
) -> Table:
    """Names, cut to what is left of ``width``, and columns of numbers."""
    room = max(width - width_of(numbers) - GAP, _NARROWEST)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(heading, overflow="ellipsis", no_wrap=True, max_width=room)
    for title, _ in numbers:
        table.add_column(title, justify="right", no_wrap=True)
    for row, name in enumerate(names):
        table.add_row(Text(name), *(Text(cells[row]) for _, cells in numbers))
    return table


def in_lines(beginning: str, parts: Sequence[str], width: int, indent: str = "  ") -> str:
    """``beginning`` and then ``parts``, with commas between; no part is broken in two."""
    lines = [beginning]
    for number, part in enumerate(parts, 1):
        part += "," * (number < len(parts))
        if len(lines[-1]) + 1 + len(part) <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(f"{indent}{part}")
    return "\n".join(lines)
