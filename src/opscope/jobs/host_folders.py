"""A job of several hosts: a folder with one folder of ours for each, as they were copied there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from opscope.base.input_file import is_folder
from opscope.columns.trace_data import TraceData
from opscope.errors import TraceFormatError
from opscope.jobs.trace_folder import TraceFolder
from opscope.recording.streams.load import parts_of
from opscope.storage.job import ledger_with_ranks, place_in_job
from opscope.storage.partition import RANK, Partition, in_order
from opscope.storage.processes import Processes


class HostFolders:
    """Folders of ours that hold different ranks of one job."""

    def __init__(self, path: Path, folders: Mapping[Partition, TraceFolder]) -> None:
        self.path = path
        self._of = {part: folders[part] for part in in_order(folders)}
        self._hosts = tuple(dict.fromkeys(self._of.values()))

    @property
    def parts(self) -> tuple[Partition, ...]:
        """The ranks of all."""
        return tuple(self._of)

    def load(self, part: Partition) -> TraceData:
        """The trace of one, or what its recording holds so far; beside it are the ranks of all."""
        trace = self._of[part].load(part)
        there = [one.number for one in self._of]
        ledger = ledger_with_ranks(trace.table("ledger"), trace.metadata, part.number, there)
        return trace.with_tables({"ledger": ledger})

    def folder_of(self, part: Partition) -> Path:
        """Of its host."""
        return self._of[part].path if part in self._of else self.path

    def prepare(self, parts: tuple[Partition, ...]) -> None:
        """There is nothing to make ready."""

    def metadata(self, part: Partition) -> dict[str, Any]:
        """Of what is written, from a file of its own."""
        return self._of[part].metadata(part)

    @property
    def unfinished(self) -> Collection[Partition]:
        """Those of which there is the recording, and no trace yet."""
        return {part for host in self._hosts for part in host.unfinished}

    def tables(self, part: Partition) -> Path | TraceData:
        """The folder of one that was written."""
        return self._of[part].tables(part)

    def folders(self) -> dict[Partition, Path]:
        """Of what was written, and not begun again since."""
        return {part: folder for host in self._hosts for part, folder in host.folders().items()}

    def processes(self) -> Processes:
        """Those of every host, one host after the other."""
        found = [host.processes() for host in self._hosts]
        entries = tuple(entry for one in found for entry in one.entries)
        parts = {part: folder for one in found for part, folder in one.parts.items()}
        return Processes(self.path, entries, parts)


def host_folders(path: Path) -> HostFolders | None:
    """What is in a folder of such folders; None where they are no one job's.

    They are where each holds ranks that no other does, of jobs of the same size.

    Raises:
        TraceFormatError: it cannot be looked into, or another version made what is in it.
    """
    if not is_folder(path):
        return None
    found: dict[Partition, TraceFolder] = {}
    sizes, hosts = set(), 0
    with suppress(OSError):
        for folder in sorted(one for one in path.iterdir() if one.is_dir()):
            parts = parts_of(folder)
            if not parts:
                continue
            host = TraceFolder(folder, parts)
            is_of_job = not found.keys() & {*parts} and all(part.kind == RANK for part in parts)
            if not is_of_job:
                return None
            sizes |= {_size(host, part) for part in parts}
            found |= dict.fromkeys(parts, host)
            hosts += 1
    return HostFolders(path, found) if hosts > 1 and len(sizes) == 1 and 1 not in sizes else None


def _size(host: TraceFolder, part: Partition) -> int:
    """Of the job that a rank says it is of; 1 where it does not."""
    try:
        own, size = place_in_job(host.metadata(part))
    except TraceFormatError:  # damaged: it is said where it is read
        return 1
    return size if own == part.number else 1
