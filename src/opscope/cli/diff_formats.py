"""A comparison as text for a terminal, and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from opscope.analysis.diff.gate import Judgement, Outcome
from opscope.analysis.diff.result import Diff
from opscope.cli import rows
from opscope.printable import in_markdown, printable
from opscope.report.diff_tables import DiffTable, closing, headline, tables

_MARKS = {Outcome.PASSED: "✅", Outcome.FAILED: "❌", Outcome.NOT_JUDGED: "❔"}


def as_text(diff: Diff, most_rows: int) -> RenderableType:
    """Lines and tables for a terminal."""
    shown: list[RenderableType] = [Text(printable(line)) for line in headline(diff)]
    for table in tables(diff, most_rows):
        shown += [Text(f"\n{table.title}", "bold"), _rich(table)]
        if table.left_out:
            shown.append(Text(f"{table.left_out} more: --row-limit -1 shows all", "dim"))
    return Group(*shown, *(Text(f"\n{printable(line)}", "dim") for line in closing(diff)))


def as_markdown(diff: Diff, judgements: Sequence[Judgement], most_rows: int) -> str:
    """Paragraphs and tables; what became of a gate comes first."""
    parts = [_gate(judgements)] if judgements else []
    parts.append("".join(f"- {in_markdown(line)}\n" for line in headline(diff)))
    for table in tables(diff, most_rows):
        more = f"\n{table.left_out} more\n" if table.left_out else ""
        parts.append(f"**{table.title}**\n\n{rows.as_markdown(table.headings, table.rows)}{more}")
    parts.append("".join(f"{in_markdown(line)}\n\n" for line in closing(diff)))
    return "\n".join(parts).rstrip() + "\n"


def _gate(judgements: Sequence[Judgement]) -> str:
    cells = [
        (one.condition.text, f"{_MARKS[one.outcome]} {one.outcome.value}", one.why)
        for one in judgements
    ]
    return rows.as_markdown(("Condition", "Outcome", "Why"), cells, texts=3)


def _rich(table: DiffTable) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column, heading in enumerate(table.headings):
        if column:
            shown.add_column(heading, justify="right", no_wrap=len(table.headings) > 3)
        else:
            shown.add_column(heading, overflow="ellipsis", no_wrap=True, max_width=72)
    for row in table.rows:
        shown.add_row(*(Text(printable(cell)) for cell in row))
    return shown
