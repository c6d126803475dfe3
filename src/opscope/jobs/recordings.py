"""Where the recordings of a job lie: in a folder of ours, in those of several hosts, in one of
Chrome traces, or in a Chrome trace of several processes."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol

from opscope.columns.trace_data import TraceData
from opscope.jobs.chrome_file import chrome_file
from opscope.jobs.chrome_folder import ChromeFolder, chrome_files
from opscope.jobs.host_folders import HostFolders, host_folders
from opscope.jobs.trace_folder import TraceFolder
from opscope.recording.streams.load import parts_of
from opscope.storage.partition import Partition
from opscope.storage.processes import Processes


class Recordings(Protocol):
    """What a job is read from."""

    @property
    def parts(self) -> tuple[Partition, ...]:
        """Its processes, in their order."""

    def load(self, part: Partition) -> TraceData:
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

    def tables(self, part: Partition) -> Path | TraceData:
        """A folder with the tables of one, or what holds them."""

    def folders(self) -> dict[Partition, Path]:
        """Of those whose tables are on disk, the folder with them."""

    def processes(self) -> Processes:
        """Every process that is known of."""


def find_recordings(path: Path) -> Recordings | None:
    """What holds the recordings of processes at a path; None where nothing does.

    Raises:
        TraceFormatError: it cannot be looked into, or another version made what is in it.
        UsageError: it has Chrome traces, and two of one rank or one of nobody knows which.
    """
    if parts := parts_of(path):
        return TraceFolder(path, parts)
    if files := chrome_files(path):
        return ChromeFolder(path, files)
    return chrome_file(path) or host_folders(path)


def folder_of(path: Path, part: Partition | None) -> Path:
    """The folder of ours in ``path`` that has a process: of a job of several hosts that of its
    host, else ``path``.

    Raises:
        TraceFormatError, UsageError: as :func:`find_recordings`.
    """
    source = find_recordings(path)
    if isinstance(source, HostFolders) and part is not None:
        return source.folder_of(part)
    return path
