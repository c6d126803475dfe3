"""The recordings of a job, from one of four sources.

An opscope folder, one per host, a folder of Chrome traces, or a Chrome trace of several processes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from opscope.base.input_file import is_folder
from opscope.columns.trace_data import TraceData
from opscope.errors import TraceFormatError
from opscope.recording.streams.load import load_trace, parts_of, restarted_parts
from opscope.storage.job import ledger_with_ranks, place_in_job
from opscope.storage.job_source import Recordings
from opscope.storage.partition import RANK, Partition, in_order, partition_folders
from opscope.storage.processes import Processes, metadata_of


class TraceFolder(Recordings):
    """An opscope folder; its recordings may be unfinished."""

    def __init__(self, path: Path, parts: tuple[Partition, ...]) -> None:
        self.path, self.parts = path, parts

    def load(self, part: Partition) -> TraceData:
        """The trace of a process, or what its recording holds so far."""
        return load_trace(self.path, **{part.kind: part.number})

    def metadata(self, part: Partition) -> dict[str, Any]:
        """Metadata of a written trace, from its own file."""
        usual = self.path / part.folder_name  # searching all folders for each process takes long
        folder = usual if usual.is_dir() else partition_folders(self.path).get(part)
        return self.load(part).metadata if folder is None else metadata_of(folder)

    @property
    def unfinished(self) -> Collection[Partition]:
        """Processes with an unfinished recording, and no later trace."""
        return {*self.parts} - self.folders().keys()

    def folders(self) -> dict[Partition, Path]:
        """Folders of written traces whose process has no later recording."""
        restarted = restarted_parts(self.path)
        folders = partition_folders(self.path)
        return {part: folder for part, folder in folders.items() if part not in restarted}

    def processes(self) -> Processes:
        """The processes in the folder's list, including those without a recording."""
        return Processes.in_folder(self.path).with_parts(self.parts)


class HostFolders(Recordings):
    """opscope folders, one for each host, with different ranks of one job."""

    def __init__(self, path: Path, folders: Mapping[Partition, TraceFolder]) -> None:
        self.path = path
        self._of = {part: folders[part] for part in in_order(folders)}
        self._hosts = tuple(dict.fromkeys(self._of.values()))
        self.parts = tuple(self._of)

    def load(self, part: Partition) -> TraceData:
        """The trace of a rank; its ledger lists the ranks of all hosts."""
        trace = self._of[part].load(part)
        ranks = [one.number for one in self._of]
        ledger = ledger_with_ranks(trace.table("ledger"), trace.metadata, part.number, ranks)
        return trace.with_tables({"ledger": ledger})

    def folder_of(self, part: Partition) -> Path:
        """The folder of the process's host."""
        return self._of[part].path if part in self._of else self.path

    def metadata(self, part: Partition) -> dict[str, Any]:
        """Metadata from the folder of the process's host."""
        return self._of[part].metadata(part)

    @property
    def unfinished(self) -> Collection[Partition]:
        """Ranks with an unfinished recording, and no later trace."""
        return {part for host in self._hosts for part in host.unfinished}

    def folders(self) -> dict[Partition, Path]:
        """Folders of the written traces of all hosts."""
        return {part: folder for host in self._hosts for part, folder in host.folders().items()}

    def processes(self) -> Processes:
        """The processes of all hosts, host by host."""
        found = [host.processes() for host in self._hosts]
        entries = tuple(entry for one in found for entry in one.entries)
        parts = {part: folder for one in found for part, folder in one.parts.items()}
        return Processes(self.path, entries, parts)


def find_recordings(path: Path) -> Recordings | None:
    """The recordings at a path; None if there are none.

    Raises:
        TraceFormatError: the path cannot be read, or another version wrote it.
        UsageError: two Chrome traces are of one rank, or the rank of one is unknown.
    """
    if parts := parts_of(path):
        return TraceFolder(path, parts)
    # Its parsers and archives take as long to import as a short trace takes to read.
    from opscope.jobs.chrome_files import ChromeFolder, chrome_file, chrome_files

    if files := chrome_files(path):
        return ChromeFolder(path, files)
    return chrome_file(path) or _host_folders(path)


def _host_folders(path: Path) -> HostFolders | None:
    """Folders with different ranks of jobs of the same size; None for other folders."""
    if not is_folder(path):
        return None
    folders: dict[Partition, TraceFolder] = {}
    sizes, hosts = set(), 0
    with suppress(OSError):
        for folder in sorted(one for one in path.iterdir() if one.is_dir()):
            parts = parts_of(folder)
            if not parts:
                continue
            host = TraceFolder(folder, parts)
            is_of_job = not folders.keys() & {*parts} and all(part.kind == RANK for part in parts)
            if not is_of_job:
                return None
            sizes |= {_size(host, part) for part in parts}
            folders |= dict.fromkeys(parts, host)
            hosts += 1
    return HostFolders(path, folders) if hosts > 1 and len(sizes) == 1 and 1 not in sizes else None


def _size(host: TraceFolder, part: Partition) -> int:
    """Number of ranks of the job; 1 if the trace does not say."""
    try:
        own, size = place_in_job(host.metadata(part))
    except TraceFormatError:  # damaged: the reader reports it
        return 1
    return size if own == part.number else 1
