"""The base class of a job's sources."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from opscope.columns.trace_data import TraceData
from opscope.storage.partition import Partition
from opscope.storage.processes import Processes


class Recordings:
    """Source of a job's traces; by default one whose recordings have ended and are in no folder.

    Attributes:
        path: the folder or file.
        parts: its processes, in order.
    """

    path: Path
    parts: tuple[Partition, ...]

    def load(self, part: Partition) -> TraceData:
        """The trace of one process; TraceFormatError if it is damaged."""
        raise NotImplementedError

    def prepare(self, parts: tuple[Partition, ...]) -> None:
        """Read several processes at once, before they are loaded one by one."""

    def metadata(self, part: Partition) -> dict[str, Any]:
        """Metadata of one process, if possible without reading its tables."""
        return dict(self.load(part).metadata)

    @property
    def unfinished(self) -> Collection[Partition]:
        """Processes whose recordings have not ended."""
        return ()

    def folders(self) -> dict[Partition, Path]:
        """Folders of the processes whose tables are on disk."""
        return {}

    def folder_of(self, part: Partition) -> Path:
        """The opscope folder with a process."""
        return self.path

    def processes(self) -> Processes:
        """Every known process."""
        return Processes(self.path).with_parts(self.parts)
