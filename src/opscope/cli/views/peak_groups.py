"""Memory by what it has in common, as a table."""

from __future__ import annotations

from dataclasses import astuple

from opscope.analysis.memory.life_categories import PeakGroup
from opscope.base.quantity_text import bytes_text
from opscope.cli.views.findings import relative_file
from opscope.cli.views.results import Section


def group_section(title: str, groups: tuple[PeakGroup, ...], total: int, most_rows: int) -> Section:
    """A table of groups, largest first; the rest is summed up in one row."""
    shown, rest = list(groups[:most_rows]), groups[most_rows:]
    if rest:
        sums = (sum(sizes) for sizes in list(zip(*map(astuple, rest), strict=True))[1:])
        shown.append(PeakGroup(f"({len(rest)} more)", *sums))
    rows = [
        [
            relative_file(one.name),
            bytes_text(one.size_bytes),
            f"{100 * one.size_bytes / total:.1f}%" if total else "-",
            one.blocks,
            bytes_text(one.before_bytes) if one.before_bytes else "-",
        ]
        for one in shown
    ]
    return Section(columns=(title, "size", "share", "blocks", "from before"), rows=rows)
