"""What was in use at the peak, as a small text table."""

from __future__ import annotations

import os
from dataclasses import replace

from opscope.analysis.memory.groups import PeakGroup, by_function
from opscope.analysis.memory.peak import NO_LINE, PeakMemory
from opscope.printable import printable

_NAME_WIDTH, _NARROWEST = 72, 16
_NUMBERS_WIDTH = 45
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def peak_table(peak: PeakMemory, most_rows: int = 8, width: int = 120) -> str:
    """The peak by category, module, operator and Python stack, largest groups first.

    Args:
        peak: what :func:`opscope.analysis.memory.peak.memory_at_peak` found.
        most_rows: per table; the rest is summed up in one row.
        width: of the terminal, to which names are cut.
    """
    lines = [f"{size_text(peak.total_bytes)} in use on {peak.device} at its peak"]
    if peak.before_bytes:
        lines.append(f"  {size_text(peak.before_bytes)} of it allocated before the recording")
    if peak.unseen_bytes:
        lines.append(f"  {size_text(peak.unseen_bytes)} of that not used or freed since")
    if peak.uncertain_bytes:
        lines.append(
            f"  {size_text(peak.uncertain_bytes)} of that possibly freed by then, unnoticed"
        )
    for title, groups in (
        ("category", peak.by_category),
        ("module", peak.by_module),
        ("operator", peak.by_operator),
        ("Python function", by_function(peak.by_stack)),
        ("line of the program", _below_here(peak.by_line)),
    ):
        if title != "line of the program" or any(group.name != NO_LINE for group in groups):
            lines += ["", *_table(title, groups, peak.total_bytes, most_rows, width)]
    return "\n".join(lines) + "\n"


def _below_here(groups: tuple[PeakGroup, ...]) -> tuple[PeakGroup, ...]:
    """Files below the current folder relative to it."""
    here = os.getcwd() + os.sep
    return tuple(replace(group, name=group.name.removeprefix(here)) for group in groups)


def size_text(size_bytes: int) -> str:
    """``1.50 MiB``; plain below a KiB."""
    value, unit = float(size_bytes), 0
    while abs(value) >= 1024 and unit + 1 < len(_UNITS):
        value, unit = value / 1024, unit + 1
    return f"{value:.2f} {_UNITS[unit]}" if unit else f"{size_bytes} B"


def _table(
    title: str, groups: tuple[PeakGroup, ...], total: int, most_rows: int, width: int
) -> list[str]:
    longest = max(min(width - _NUMBERS_WIDTH, _NAME_WIDTH), _NARROWEST)
    rest = groups[most_rows:]
    rows = list(groups[:most_rows])
    if rest:
        name = f"({len(rest)} more)"
        fields = ("size_bytes", "blocks", "before_bytes")
        sums = [sum(getattr(group, field) for group in rest) for field in fields]
        rows.append(PeakGroup(name, *sums))
    names = [_cut(group.name, longest) for group in rows]
    column = max([len(title), *map(len, names)])
    lines = [f"{title:<{column}}  {'size':>12}  {'share':>6}  {'blocks':>7}  {'from before':>12}"]
    for group, name in zip(rows, names, strict=True):
        share = f"{100 * group.size_bytes / total:.1f}%" if total else "-"
        before = size_text(group.before_bytes) if group.before_bytes else "-"
        lines.append(
            f"{name:<{column}}  {size_text(group.size_bytes):>12}  {share:>6}  "
            f"{group.blocks:>7}  {before:>12}"
        )
    return lines


def _cut(name: str, longest: int) -> str:
    name = printable(name)
    return name if len(name) <= longest else name[: longest - 3] + "..."
