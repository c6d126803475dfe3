"""Groups of memory as a table."""

from __future__ import annotations

from dataclasses import astuple

from opscope.analysis.memory.life_categories import PeakGroup
from opscope.base.quantity_text import bytes_text
from opscope.cli.views.findings import relative_file
from opscope.cli.views.results import Section


def group_section(title: str, groups: tuple[PeakGroup, ...], total: int, most_rows: int) -> Section:
    """A table of the first groups, and one row with the sum of the others."""
    shown, rest = list(groups[:most_rows]), groups[most_rows:]
    if rest:
        sums = (sum(sizes) for sizes in list(zip(*map(astuple, rest), strict=True))[1:])
        shown.append(PeakGroup(f"({len(rest)} more)", *sums))
    rows = [
        [
            relative_file(group.name),
            bytes_text(group.size_bytes),
            f"{100 * group.size_bytes / total:.1f}%" if total else "-",
            group.blocks,
            bytes_text(group.before_bytes) if group.before_bytes else "-",
        ]
        for group in shown
    ]
    return Section(columns=(title, "size", "share", "blocks", "allocated before"), rows=rows)
