"""What was in use at the peak, as a small text table."""

from __future__ import annotations

from opscope.analysis.memory.groups import PeakGroup, by_function
from opscope.analysis.memory.peak import PeakMemory
from opscope.printable import printable

_NAME_WIDTH = 72
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def peak_table(peak: PeakMemory, most_rows: int = 8) -> str:
    """The peak by category, module, operator and Python stack, largest groups first.

    Args:
        peak: what :func:`opscope.analysis.memory.peak.memory_at_peak` found.
        most_rows: per table; the rest is summed up in one row.
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
    ):
        lines += ["", *_table(title, groups, peak.total_bytes, most_rows)]
    return "\n".join(lines) + "\n"


def size_text(size_bytes: int) -> str:
    """``1.50 MiB``; plain below a KiB."""
    value, unit = float(size_bytes), 0
    while abs(value) >= 1024 and unit + 1 < len(_UNITS):
        value, unit = value / 1024, unit + 1
    return f"{value:.2f} {_UNITS[unit]}" if unit else f"{size_bytes} B"


def _table(title: str, groups: tuple[PeakGroup, ...], total: int, most_rows: int) -> list[str]:
    rest = groups[most_rows:]
    rows = list(groups[:most_rows])
    if rest:
        name = f"({len(rest)} more)"
        fields = ("size_bytes", "blocks", "before_bytes")
        sums = [sum(getattr(group, field) for group in rest) for field in fields]
        rows.append(PeakGroup(name, *sums))
    width = max([len(title), *(len(_cut(group.name)) for group in rows)])
    lines = [f"{title:<{width}}  {'size':>12}  {'share':>6}  {'blocks':>7}  {'from before':>12}"]
    for group in rows:
        share = f"{100 * group.size_bytes / total:.1f}%" if total else "-"
        before = size_text(group.before_bytes) if group.before_bytes else "-"
        lines.append(
            f"{_cut(group.name):<{width}}  {size_text(group.size_bytes):>12}  {share:>6}  "
            f"{group.blocks:>7}  {before:>12}"
        )
    return lines


def _cut(name: str) -> str:
    name = printable(name)
    return name if len(name) <= _NAME_WIDTH else name[: _NAME_WIDTH - 3] + "..."
