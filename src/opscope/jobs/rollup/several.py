"""Rollups of many processes, made beside each other, each in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from opscope.errors import TraceFormatError
from opscope.jobs.rollup.workers import in_workers
from opscope.jobs.rollup.write import BYTES_PER_EVENT_READ
from opscope.storage.manifest import read_manifest
from opscope.storage.remote import complete


def roll_up_several(wanted: Mapping[Path, Path]) -> dict[Path, str]:
    """Make rollups, as many at a time as there are processors and memory for.

    Args:
        wanted: by the folder of a part, where to write its rollup; mostly the same.

    Returns:
        Why that failed, by the folder of the part; empty where all were made.
    """
    for part in wanted:
        complete(part)
    largest = max(map(_events, wanted), default=0) * BYTES_PER_EVENT_READ
    tasks = [("roll_up", os.fspath(part), os.fspath(into)) for part, into in wanted.items()]
    outcome = zip(wanted, in_workers(tasks, largest), strict=True)
    return {part: why for part, why in outcome if why}


def _events(part: Path) -> int:
    try:
        return read_manifest(part).tables.get("events", {}).get("rows", 0)
    except TraceFormatError:
        return 0
