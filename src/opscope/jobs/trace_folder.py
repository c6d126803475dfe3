"""The recordings of a job in a folder of ours."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from opscope.columns.trace_data import TraceData
from opscope.recording.streams.load import begun_again, load_trace, unfinished_part
from opscope.storage.partition import Partition, partition_folders
from opscope.storage.processes import Processes, metadata_of


class TraceFolder:
    """A folder of ours; recordings in it may be without an end."""

    def __init__(self, path: Path, parts: tuple[Partition, ...]) -> None:
        self.path, self.parts = path, parts

    def load(self, part: Partition) -> TraceData:
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

    def tables(self, part: Partition) -> Path | TraceData:
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
