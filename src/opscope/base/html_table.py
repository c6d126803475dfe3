"""A table for notebooks and terminals; its HTML inherits the colours of the page."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from opscope.base.printable import printable

LONGEST_TEXT = 120
_NUMBER_STYLE = "text-align:right;padding:2px 10px;font-variant-numeric:tabular-nums"
_TEXT_STYLE = "text-align:left;padding:2px 10px"


@dataclass(frozen=True)
class ShownTable:
    """A table of texts that ``print`` and notebooks show; the first column has the names."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def __str__(self) -> str:
        cells = [self.columns, *([printable(cell) for cell in row] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join(
                cell.rjust(width) if column else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in cells
        ]
        return "\n".join([self.title, *(lines if self.columns else ()), *filter(None, [self.note])])

    def _repr_html_(self) -> str:
        return html_table(self.title, self.columns, self.rows, self.note)


def html_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    note: str = "",
    *,
    texts: Container[int] = (0,),
) -> str:
    """HTML of rows under a title; columns in ``texts`` have text, the others numbers.

    All text is escaped: names come from recorded programs.
    """
    longest = LONGEST_TEXT if columns else None  # without columns, rows are sentences
    head = "".join(_cell("th", text, i in texts, longest) for i, text in enumerate(columns))
    body = "".join(
        f"<tr>{''.join(_cell('td', text, i in texts, longest) for i, text in enumerate(row))}</tr>"
        for row in rows
    )
    below = f"<p>{escape(note)}</p>" if note else ""
    return (
        f"<div><p><b>{escape(title)}</b></p><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{below}</div>"
    )


def _cell(tag: str, text: str, is_text: bool, longest: int | None) -> str:
    if longest is not None and len(text) > longest:
        text = text[: longest - 1] + "…"
    style = _TEXT_STYLE if is_text else _NUMBER_STYLE
    return f'<{tag} style="{style}">{escape(printable(text))}</{tag}>'
