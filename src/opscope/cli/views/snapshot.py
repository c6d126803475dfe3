"""``opscope memory`` for a memory snapshot of torch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path

from opscope.analysis.memory.life_categories import PeakGroup
from opscope.analysis.memory.snapshot import SnapshotMemory, snapshot_memory
from opscope.base.quantity_text import bytes_text
from opscope.cli.views.console import Messages
from opscope.cli.views.findings import relative_file
from opscope.cli.views.results import Result, Section
from opscope.storage.file_kind import FileKind, file_kind
from opscope.storage.snapshot import read_snapshot


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


_CSV_HEADINGS = ("by", "name", "size_bytes", "blocks", "before_bytes")
_POINTS = 12
_BAR = 40


def is_snapshot(path: Path) -> bool:
    """Whether a file is a pickle; reading it raises an error if it is no snapshot."""
    return os.path.isfile(path) and file_kind(path) in (FileKind.SNAPSHOT, FileKind.PICKLE)


def snapshot_result(path: Path, device: str | None, row_limit: int) -> Result:
    """Result for the device with the highest peak, or for the chosen one."""
    with Messages().progress(f"reading {path}"):
        memory = snapshot_memory(read_snapshot(path), device)
    groups = [("line at the peak", memory.at_peak), ("line at the end", memory.at_end)]
    totals = (memory.peak_bytes, memory.end_bytes)
    return Result(
        sections=[
            Section(notes=list(_about(memory))),
            *(
                group_section(title, group, total, row_limit)
                for (title, group), total in zip(groups, totals, strict=True)
                if group
            ),
            *_over_time(memory),
        ],
        content=memory.as_dict(),
        columns=_CSV_HEADINGS,
        rows=[[by, *astuple(group)] for by, all_of in groups for group in all_of],
    )


def _about(memory: SnapshotMemory) -> Iterator[str]:
    yield f"{bytes_text(memory.peak_bytes)} in use on {memory.device} at its peak"
    if memory.before_bytes:
        yield f"  {bytes_text(memory.before_bytes)} of it allocated before the record begins"
    yield f"{bytes_text(memory.end_bytes)} in use at the end"
    if memory.reserved_bytes:
        yield (
            f"  {bytes_text(memory.reserved_bytes)} reserved then; {bytes_text(memory.free_bytes)} "
            f"of that free, in pieces of at most {bytes_text(memory.largest_free_bytes)}"
        )
    if memory.failed:
        yield f"{memory.failed:,} allocations failed because of missing memory"
    if memory.unmatched:
        yield f"{memory.unmatched:,} frees have no recorded allocation"


def _over_time(memory: SnapshotMemory) -> Iterator[Section]:
    points = memory.timeline()
    if len(points) < 2:
        return
    size = max(len(points) // _POINTS, 1)
    intervals = [points[row : row + size] for row in range(0, len(points), size)]
    fullest = [max(interval, key=lambda point: point["bytes"]) for interval in intervals]
    most = max(memory.peak_bytes, 1)
    yield Section(
        columns=("after", "in use", ""),
        rows=[
            [
                f"{point['time_us'] / 1e6:.3f} s",
                bytes_text(point["bytes"]),
                "#" * round(_BAR * point["bytes"] / most),
            ]
            for point in fullest
        ],
    )
