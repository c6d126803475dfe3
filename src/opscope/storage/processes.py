"""The processes of a trace folder: which there were, what of each was recorded, how each ended."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from opscope.columns.trace_data import TraceData
from opscope.errors import TraceFormatError
from opscope.storage.manifest import read_manifest
from opscope.storage.partition import PROCESS, Partition, partition_folders
from opscope.storage.process_journal import ProcessEntry, read_journal


@dataclass(frozen=True)
class Processes:
    """What a folder holds.

    Attributes:
        folder: of the trace.
        entries: every process that is known of, in the order in which they began.
        parts: the folders of those that there are traces of.
    """

    folder: Path
    entries: tuple[ProcessEntry, ...] = ()
    parts: dict[Partition, Path] = field(default_factory=dict)

    @classmethod
    def in_folder(cls, folder: Path) -> Processes:
        """Look into one; processes that are in no list are known by their traces alone.

        Raises:
            TraceFormatError: it cannot be looked into.
        """
        parts = partition_folders(folder)
        return cls(folder, tuple(read_journal(folder)), parts).with_parts(parts)

    def with_parts(self, parts: Iterable[Partition]) -> Processes:
        """Also those that are known by their recordings alone, or that had no time to note them."""
        known = {entry.partition for entry in self.entries}
        unknown = [part for part in parts if part not in known]
        entries = [*self.entries]
        for row, entry in enumerate(entries):
            own = Partition(PROCESS, entry.process_id)
            if entry.partition is None and own in unknown:
                entries[row] = replace(entry, partition=own)
                unknown.remove(own)
        others = [ProcessEntry(0, partition=part) for part in unknown]
        return replace(self, entries=(*entries, *others))

    def only(self, parts: Collection[Partition]) -> Processes:
        """These alone."""
        entries = tuple(entry for entry in self.entries if entry.partition in parts)
        folders = {part: folder for part, folder in self.parts.items() if part in parts}
        return Processes(self.folder, entries, folders)

    def begun_by(self, root: int) -> Processes:
        """That process, and those that it began, directly or not."""
        known, entries = {root}, []
        for entry in self.entries:
            if {entry.process_id, entry.parent_id} & known:
                known.add(entry.process_id)
                entries.append(entry)
        return replace(self, entries=tuple(entries))

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def recorded(self) -> list[ProcessEntry]:
        """Those that there are traces of."""
        return [entry for entry in self.entries if entry.partition in self.parts]

    @property
    def unrecorded(self) -> list[ProcessEntry]:
        """Those of which nothing was recorded, or nothing is written yet."""
        return [entry for entry in self.entries if entry.partition not in self.parts]

    def load(self, part: Partition) -> TraceData:
        """The trace of one.

        Raises:
            TraceFormatError: it is damaged.
            UsageError: there is none.
        """
        from opscope.storage.read_part import load_part

        folder = self.parts[part].parent if part in self.parts else self.folder
        return load_part(folder, part)

    def traces(self) -> Iterator[tuple[ProcessEntry, TraceData]]:
        """One after the other, in the order in which they began."""
        for entry in self.recorded:
            assert entry.partition is not None  # else there would be no trace of it
            yield entry, self.load(entry.partition)

    def rows_of(self, part: Partition, table: str) -> int:
        """How many rows the trace of one has of a table; nothing else of it is read."""
        try:
            return read_manifest(self.parts[part]).tables.get(table, {}).get("rows", 0)
        except (KeyError, TraceFormatError):
            return 0


def metadata_of(folder: Path) -> dict[str, Any]:
    """What the trace in a part's folder says of itself; nothing else of it is read."""
    import json

    from pyarrow import ArrowException

    from opscope.storage.read_parquet import read_whole

    try:
        table = read_whole(folder / "metadata.parquet")
        pairs = zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)
        return {str(key): json.loads(value) for key, value in pairs}
    except (ArrowException, OSError, ValueError, KeyError, TypeError, TraceFormatError):
        return {}
