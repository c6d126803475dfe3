"""Making the rollups of a job that stay beside its traces."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from opscope.base.address import refuse_address
from opscope.jobs.recordings import find_recordings
from opscope.jobs.rollup.read import Rollup
from opscope.jobs.rollup.several import roll_up_several
from opscope.storage.partition import Partition


@dataclass(frozen=True)
class MadeRollups:
    """What was done.

    Attributes:
        count: processes that there are traces of.
        made: those whose rollup was made now.
        failed: those of which that failed, and why.
    """

    count: int
    made: tuple[Partition, ...]
    failed: Mapping[Partition, str]


def make_rollups(folder: str | os.PathLike[str], again: bool = False) -> MadeRollups:
    """Make the rollups of a folder that are missing, damaged, stale or of another version.

    Args:
        folder: of a job.
        again: also those that are there and right.

    Raises:
        TraceFormatError: it cannot be looked into.
        UsageError: it is not in the file system.
    """
    refuse_address(folder)
    source = find_recordings(Path(os.fsdecode(folder)))
    parts = {} if source is None else source.folders()
    wanted = {part: folder for part, folder in parts.items() if again or Rollup.of(folder) is None}
    failed = roll_up_several({folder: folder for folder in wanted.values()})
    return MadeRollups(
        count=len(parts),
        made=tuple(part for part, folder in wanted.items() if folder not in failed),
        failed={part: failed[folder] for part, folder in wanted.items() if folder in failed},
    )
