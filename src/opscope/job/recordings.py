"""Where the recordings of a job lie: in a folder of ours, or in one of Chrome traces."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol

from opscope.job.chrome_folder import ChromeFolder, chrome_files
from opscope.trace.load import begun_again, load_trace, parts_of, unfinished_part
from opscope.trace.partition import Partition, partition_folders
from opscope.trace.processes import Processes, metadata_of
from opscope.trace.trace import Trace


class Recordings(Protocol):
    """What a job is read from."""

    @property
    def parts(self) -> tuple[Partition, ...]:
        """Its processes, in their order."""

    def load(self, part: Partition) -> Trace:
        """The trace of one of them.

        Raises:
            TraceFormatError: it is damaged.
        """

    def prepare(self, parts: tuple[Partition, ...]) -> None:
        """Make ready to load these, one after the other.

        Raises:
            TraceFormatError: one is damaged.
        """

    def metadata(self, part: Partition) -> dict[str, Any]:
        """What one says of itself, without reading more of it than that takes."""

    @property
    def unfinished(self) -> Collection[Partition]:
        """Those whose recordings did not end, or have not yet."""

    def tables(self, part: Partition) -> Path | Trace:
        """A folder with the tables of one, or what holds them."""

    def folders(self) -> dict[Partition, Path]:
        """Of those whose tables are on disk, the folder with them."""

    def processes(self) -> Processes:
        """Every process that is known of."""


class TraceFolder:
    """A folder of ours; recordings in it may be without an end."""

    def __init__(self, path: Path, parts: tuple[Partition, ...]) -> None:
        self.path, self.parts = path, parts

    def load(self, part: Partition) -> Trace:
        """The trace of one, or what its recording holds so far."""
        return load_trace(self.path, **{part.kind: part.number})

    def prepare(self, parts: tuple[Partition, ...]) -> None:
        """There is nothing to make ready."""

    def metadata(self, part: Partition) -> dict[str, Any]:
        """Of what is written, from a file of its own."""
        usual = self.path / part.folder_name  # looking through all for each takes long for many
        folder = usual if usual.is_dir() else partition_folders(self.path).get(part)
        return self.load(part).metadata if folder is None else metadata_of(folder)

    @property
    def unfinished(self) -> Collection[Partition]:
        """Those of which there is the recording, and no trace yet."""
        return {*self.parts} - partition_folders(self.path).keys()

    def tables(self, part: Partition) -> Path | Trace:
        """The folder of one that was written."""
        unfinished = unfinished_part(self.path, part)
        return partition_folders(self.path)[part] if unfinished is None else unfinished

    def folders(self) -> dict[Partition, Path]:
        """Of what was written, and not begun again since."""
        again = begun_again(self.path)
        found = partition_folders(self.path)
        return {part: folder for part, folder in found.items() if part not in again}

    def processes(self) -> Processes:
        """Those in the list of the folder too, of which nothing was recorded."""
        return Processes.in_folder(self.path).with_parts(self.parts)


def find_recordings(path: Path) -> Recordings | None:
    """What holds the recordings of processes in a folder; None where nothing does.

    Raises:
        TraceFormatError: it cannot be looked into, or another version made what is in it.
        UsageError: it has Chrome traces, and two of one rank or one of nobody knows which.
    """
    if parts := parts_of(path):
        return TraceFolder(path, parts)
    files = chrome_files(path)
    return ChromeFolder(path, files) if files else None
