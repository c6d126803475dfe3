"""Rollups of a job's processes. Missing ones are made beside the traces, or in a scratch folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from opscope.base.address import refuse_address
from opscope.base.scratch import Scratch
from opscope.errors import TraceFormatError
from opscope.jobs.recordings import find_recordings
from opscope.jobs.rollup.read import Rollup
from opscope.jobs.rollup.workers import in_workers
from opscope.jobs.rollup.write import BYTES_PER_EVENT_READ
from opscope.storage.manifest import read_manifest
from opscope.storage.partition import Partition
from opscope.storage.remote import complete


def roll_up_several(wanted: Mapping[Path, Path]) -> dict[Path, str]:
    """Make rollups in parallel, limited by CPUs and memory; returns errors, by folder.

    ``wanted``: target folder, by folder of a part.
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


Unreadable = Callable[[Partition, str], TraceFormatError]
"""Makes the error for a process that cannot be read, from the reason."""


class RolledUp:
    """Rollups of one job. Thread-safe, usable in a forked child: makes one rollup at a time."""

    def __init__(self) -> None:
        self._elsewhere: dict[Partition, Path] = {}
        self._scratch = Scratch()

    def __reduce__(self) -> tuple[type[RolledUp], tuple[()]]:
        """A copy makes its own rollups: the scratch folder belongs to this object."""
        return type(self), ()

    def there(self, folders: Mapping[Partition, Path]) -> dict[Partition, Rollup]:
        """Rollups that exist, by the folders of traces."""
        rollups = {}
        for part, folder in folders.items():
            rollup = Rollup.of(folder)
            if rollup is None and part in self._elsewhere:
                rollup = Rollup.of(folder, self._elsewhere[part])
            if rollup is not None:
                rollups[part] = rollup
        return rollups

    def all(
        self, folders: Mapping[Partition, Path], unreadable: Unreadable
    ) -> dict[Partition, Rollup]:
        """Rollups by process, from the folders of traces; makes missing ones in parallel.

        ``unreadable`` makes the error for one that cannot be made.
        """
        with self._scratch.lock:  # another thread may have made them in between
            rollups = self.there(folders)
            missing = {part: folder for part, folder in folders.items() if part not in rollups}
            if missing:
                self._make(missing, unreadable)
                rollups |= self.there(missing)
        for part in folders:
            if part not in rollups:
                why = (
                    "its rollup changed during reading. Retry when no process writes to the folder."
                )
                raise unreadable(part, f"{folders[part]} has no rollup: {why}")
        return {part: rollups[part] for part in folders}

    def saved(self, part: Partition, save: Callable[[Path], Path], again: bool) -> Path:
        """Folder of a trace that is not on disk; ``save`` puts it into the job's temporary folder.

        ``again``: save it also if it was saved before, because it may have grown.
        """
        with self._scratch.lock:
            traces = self._scratch.folder / "traces"
            folder = traces / part.folder_name
            return folder if folder.exists() and not again else save(traces)

    def _make(self, missing: Mapping[Partition, Path], unreadable: Unreadable) -> None:
        for part, folder in missing.items():
            if not os.access(folder, os.W_OK):
                self._elsewhere[part] = self._scratch.folder / folder.name
        into = {folder: self._elsewhere.get(part, folder) for part, folder in missing.items()}
        failed = roll_up_several(into)
        for part, folder in missing.items():
            if folder in failed:
                raise unreadable(part, failed[folder])


@dataclass(frozen=True)
class MadeRollups:
    """Number of rollups made, and where they are."""

    count: int  # processes with traces
    made: tuple[Partition, ...]  # processes whose rollup was made
    failed: Mapping[Partition, str]  # errors of the others


def make_rollups(folder: str | os.PathLike[str], again: bool = False) -> MadeRollups:
    """Make missing, damaged, stale or outdated rollups of a job; ``again``: make all."""
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
