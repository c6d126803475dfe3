"""A memory snapshot of torch, as ``opscope memory`` shows it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path

from opscope.analysis.memory.snapshot import SnapshotMemory, snapshot_memory
from opscope.base.quantity_text import bytes_text
from opscope.cli.views.console import Messages
from opscope.cli.views.peak_groups import group_section
from opscope.cli.views.results import Result, Section
from opscope.storage.file_kind import FileKind, file_kind
from opscope.storage.snapshot import read_snapshot

_CSV_HEADINGS = ("by", "name", "size_bytes", "blocks", "before_bytes")
_POINTS = 12
_BAR = 40


def is_snapshot(path: Path) -> bool:
    """Whether a file is a pickle; any other than a snapshot is refused when it is read."""
    return os.path.isfile(path) and file_kind(path) in (FileKind.SNAPSHOT, FileKind.PICKLE)


def snapshot_result(path: Path, device: str | None, row_limit: int) -> Result:
    """Result for the device with the highest peak, or for the chosen one."""
    with Messages().progress(f"reading {path}"):
        found = snapshot_memory(read_snapshot(path), device)
    groups = [("line at the peak", found.at_peak), ("line at the end", found.at_end)]
    totals = (found.peak_bytes, found.end_bytes)
    return Result(
        sections=[
            Section(notes=list(_about(found))),
            *(
                group_section(title, group, total, row_limit)
                for (title, group), total in zip(groups, totals, strict=True)
                if group
            ),
            *_over_time(found),
        ],
        content=found.as_dict(),
        columns=_CSV_HEADINGS,
        rows=[[by, *astuple(group)] for by, all_of in groups for group in all_of],
    )


def _about(found: SnapshotMemory) -> Iterator[str]:
    yield f"{bytes_text(found.peak_bytes)} in use on {found.device} at its peak"
    if found.before_bytes:
        yield f"  {bytes_text(found.before_bytes)} of it allocated before the record begins"
    yield f"{bytes_text(found.end_bytes)} in use at the end"
    if found.reserved_bytes:
        yield (
            f"  {bytes_text(found.reserved_bytes)} reserved then; {bytes_text(found.free_bytes)} "
            f"of that free, in pieces of at most {bytes_text(found.largest_free_bytes)}"
        )
    if found.failed:
        yield f"{found.failed:,} allocations failed because of missing memory"
    if found.unmatched:
        yield f"{found.unmatched:,} frees have no recorded allocation"


def _over_time(found: SnapshotMemory) -> Iterator[Section]:
    points = found.timeline()
    if len(points) < 2:
        return
    every = max(len(points) // _POINTS, 1)
    stretches = [points[row : row + every] for row in range(0, len(points), every)]
    fullest = [max(stretch, key=lambda point: point["bytes"]) for stretch in stretches]
    most = max(found.peak_bytes, 1)
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
