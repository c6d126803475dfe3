"""Figures of several processes side by side, and which differs, in every format."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table
from rich.text import Text

from opscope.cli import several_processes
from opscope.cli.console import Messages, Output, console_for
from opscope.cli.rows import RowsFormat, as_markdown
from opscope.job.compared_shares import ComparedShares
from opscope.printable import in_markdown, printable
from opscope.trace.partition import Partition

_MOST_DIFFERENCES = 5


@dataclass(frozen=True)
class SideBySide:
    """What a command shows of several processes.

    Attributes:
        heading: of the columns, the first of which is the process.
        rows: of the table.
        texts: how many columns are words; those after them are numbers.
        contents: what the command's JSON has of each.
        csv_heading: of what its CSV has of each.
        csv_rows: that.
        compared: which of them differ.
        sentences: what else is said of all, in words.
        of_all: the same for JSON.
    """

    heading: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: int
    contents: Mapping[Partition, Mapping[str, Any]]
    csv_heading: Sequence[str]
    csv_rows: Mapping[Partition, Iterable[Sequence[object]]]
    compared: ComparedShares
    sentences: Sequence[str] = ()
    of_all: Mapping[str, Any] = field(default_factory=dict)

    def show(self, format: RowsFormat) -> None:
        """Print it."""
        said = [*self.sentences, *_differences(self.compared)]
        if format is RowsFormat.JSON:
            differing = [one.as_dict() for one in self.compared.differing]
            of_all = {**self.of_all, "differences": differing}
            Output().write(several_processes.as_json(self.contents, **of_all))
        elif format is RowsFormat.CSV:
            Output().write(several_processes.as_csv(self.csv_heading, self.csv_rows))
            for line in said:  # its rows have no room for them
                Messages().say(line)
        elif format is RowsFormat.MARKDOWN:
            table = as_markdown(self.heading, self.rows, self.texts) if self.rows else ""
            Output().show(table + "".join(f"\n{in_markdown(line)}\n" for line in said))
        else:
            console = console_for(sys.stdout)
            if self.rows:
                console.print(as_table(self.heading, self.rows, self.texts))
            for line in said:
                console.print(Text(printable(line)))


def as_table(heading: Sequence[str], rows: Iterable[Sequence[str]], texts: int) -> Table:
    """For a terminal: words give way where it is narrow, numbers and processes do not."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, title in enumerate(heading):
        is_number = column >= texts
        whole = is_number or not column
        table.add_column(title, justify="right" if is_number else "left", no_wrap=whole)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def _differences(compared: ComparedShares) -> Iterator[str]:
    differing = compared.differing
    for one in differing[:_MOST_DIFFERENCES]:
        yield several_processes.difference_text(
            one.what, one.share, one.process, one.middle, one.compared
        )
    if len(differing) > _MOST_DIFFERENCES:
        yield f"{len(differing) - _MOST_DIFFERENCES:,} more differences: --format json has all."
    if compared.compared and not differing:
        yield "No share differs much between them."
