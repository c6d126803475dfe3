"""What operators of several processes reach, side by side."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from opscope.analysis.quantity_text import share_text, time_text
from opscope.analysis.roofline.roofline import Roofline
from opscope.cli.side_by_side import SideBySide
from opscope.job.compared_shares import compare_shares_of
from opscope.trace.partition import Partition

Found = Mapping[Partition, Roofline]

_HEADING = ("Process", "Most lost in", "Bound by", "Time", "Known", "Reached", "Lost")
_TEXTS = 3
_CSV_HEADING = (
    "operator", "calls", "time_ns", "flops", "moved_bytes", "reachable_ns", "bound", "share",
    "lost_ns",
)  # fmt: skip


def side_by_side(found: Found, among: Collection[Partition]) -> SideBySide:
    """A row for each; ``among`` are compared."""
    contents = {part: one.as_dict() for part, one in found.items()}
    shares = {
        "reached": {part: one.share for part, one in found.items() if one.covered_ns},
        "known of operators' time": {
            part: one.coverage for part, one in found.items() if one.operator_ns
        },
    }
    return SideBySide(
        heading=_HEADING,
        rows=[_row(part, one) for part, one in found.items()],
        texts=_TEXTS,
        contents=contents,
        csv_heading=_CSV_HEADING,
        csv_rows={part: _csv_rows(one["rows"]) for part, one in contents.items()},
        compared=compare_shares_of(shares, among),
    )


def _row(part: Partition, one: Roofline) -> tuple[str, ...]:
    if not one.covered_ns:
        known = share_text(0.0) if one.operator_ns else "--"
        return str(part), "--", "--", time_text(one.operator_ns), known, "--", "--"
    worst = one.rows[0]
    return (
        str(part),
        f"{worst.operator} {time_text(round(worst.lost_ns))}",
        worst.bound.value,
        time_text(one.operator_ns),
        share_text(one.coverage),
        share_text(one.share),
        time_text(round(one.lost_ns)),
    )


def _csv_rows(rows: Iterable[Mapping[str, object]]) -> list[list[object]]:
    return [[row[name] for name in _CSV_HEADING] for row in rows]
