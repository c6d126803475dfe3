"""The fullest moment of each of several processes, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from opscope.analysis.memory.groups import PeakGroup
from opscope.analysis.memory.peak import NO_LINE, PeakMemory
from opscope.cli.finding_formats import below_here
from opscope.export.peak_table import size_text
from opscope.printable import printable
from opscope.trace.partition import Partition

PEAKS_HEADING = ("Process", "Device", "In use", "From before", "Most for", "Most by")


def peak_rows(peaks: Mapping[Partition, PeakMemory]) -> list[list[str]]:
    """One for each, largest first."""
    ordered = sorted(peaks.items(), key=lambda one: -one[1].total_bytes)
    return [
        [
            str(part),
            peak.device,
            size_text(peak.total_bytes),
            size_text(peak.before_bytes),
            _largest(peak.by_category),
            _largest([group for group in peak.by_line if group.name != NO_LINE] or peak.by_module),
        ]
        for part, peak in ordered
    ]


def as_peaks_table(peaks: Mapping[Partition, PeakMemory]) -> RenderableType:
    """For a terminal."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in PEAKS_HEADING:
        is_number = heading in ("In use", "From before")
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=is_number)
    for row in peak_rows(peaks):
        table.add_row(*map(Text, row))
    return table


def _largest(groups: Sequence[PeakGroup]) -> str:
    if not groups:
        return "-"
    return f"{printable(below_here(groups[0].name))} {size_text(groups[0].size_bytes)}"
