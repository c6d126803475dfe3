"""The processes of a trace folder: all that ran, their recordings, their ends.

``processes.jsonl`` has a line for each begin, recording and end of a Python process. Each line is
appended by one write, so processes need not wait for each other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from opscope.base.files import open_inside
from opscope.base.untrusted_files import COUNT, Shape, has_shape, parsed_json
from opscope.columns.trace_data import TraceData
from opscope.errors import TraceFormatError
from opscope.storage.manifest import PROCESSES, read_manifest
from opscope.storage.partition import PROCESS, RANK, Partition, partition_folders

JOB, BEGAN, PART, RECORDING = "job", "began", "part", "recording"
REFUSED, ENDED = "refused", "ended"
BECAME_ANOTHER = "became another program (exec)"
AGAIN = 10_000_000
"""Added to a part's number if an earlier part of the folder has it: process ids are reused, and
exec keeps the process id."""
_LINE: Shape = {"process": COUNT, "event": str}
_BEGAN: Shape = {"start": COUNT, "parent": COUNT, "how": str, "command": [str]}
_MAX_BYTES = 64 << 20  # size limit of a file of unknown origin: some hundred thousand processes
_MAX_JOB_BYTES = 200


@dataclass(frozen=True)
class ProcessEntry:
    """Facts about one process.

    Attributes:
        process_id: the system's.
        start: start in the kernel's ticks since boot; distinguishes processes with the same id.
        parent_id: id of the process that started it; 0 if unknown.
        how_begun: ``program``, ``started`` (as a separate program) or ``forked``.
        command: command line.
        partition: part of its trace, also before it is written; None if it was not recorded.
        refused: reason why it was not recorded, or empty.
        ended: how it ended; empty while unknown.
        has_torch: torch was loaded when it began, in the process that it was forked from.
    """

    process_id: int
    start: int = 0
    parent_id: int = 0
    how_begun: str = ""
    command: tuple[str, ...] = field(default=())
    partition: Partition | None = None
    refused: str = ""
    ended: str = ""
    has_torch: bool = False


def append(folder: Path, line: Mapping[str, Any]) -> bool:
    """Append a line if the folder exists; returns whether it was written."""
    text = json.dumps(line) + "\n"
    with suppress(OSError):
        file = open_inside(folder, PROCESSES, os.O_WRONLY | os.O_APPEND)
        try:
            return os.write(file, text.encode()) == len(text)
        finally:
            os.close(file)
    return False


def read_journal(folder: Path) -> list[ProcessEntry]:
    """The processes in order of their begin; empty without the file.

    Processes of a schedule's cycle are in the folder that contains all cycles. Invalid lines are
    skipped: the end may be missing after its writer was killed.
    """
    entries: list[ProcessEntry] = []
    latest: dict[tuple[int, int], int] = {}
    for line in _lines(_journal_of(folder)):
        with suppress(ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
            _apply(parsed_json(line, _LINE), entries, latest)
    return entries


def reserve_number(folder: Path, process: int) -> int:
    """Reserve the number of a process's part; the process may have one already.

    Two containers may have processes with the same id: the first in the list gets the part.
    """
    claim = os.urandom(8).hex()
    while True:
        number, claimed = process, _claims(folder)
        while number in claimed:
            number += AGAIN
        added = append(folder, {"event": PART, "process": process, "part": number, "claim": claim})
        if not added or _claims(folder).get(number) == claim:
            return number


def _claims(folder: Path) -> dict[int, str]:
    """First claim by number of the part."""
    claims: dict[int, str] = {}
    for line in _lines(_journal_of(folder)):
        with suppress(ValueError, TypeError, KeyError):
            record = json.loads(line)
            if record["event"] in (PART, RECORDING) and record.get("rank") is None:
                number = int(record.get("part", record["process"]))
                claims.setdefault(number, str(record.get("claim", "")))
    return claims


def begin_job(folder: Path) -> None:
    """Start a new job id for the processes that are recorded to a folder from now on."""
    append(folder, {"event": JOB, "id": os.urandom(8).hex()})


def job_of(folder: Path) -> str:
    """The folder's job id; empty without one."""
    for line in _lines(_journal_of(folder), _MAX_JOB_BYTES):
        with suppress(ValueError, TypeError, KeyError):
            record = json.loads(line)
            return str(record["id"]) if record["event"] == JOB else ""
    return ""


def _journal_of(folder: Path) -> Path:
    own = folder / PROCESSES
    if own.exists() or not folder.absolute().name.startswith("cycle-"):
        return own
    return folder.absolute().parent / PROCESSES


def _lines(file: Path, most_bytes: int = _MAX_BYTES) -> Iterator[bytes]:
    try:
        with open(open_inside(file.parent, file.name), "rb") as opened:
            yield from opened.read(most_bytes).splitlines()
    except OSError:
        return


def _apply(
    line: dict[str, Any], entries: list[ProcessEntry], latest: dict[tuple[int, int], int]
) -> None:
    key = line["process"], int(line.get("space", 0))
    if line["event"] != BEGAN:
        row = latest[key]
        entries[row] = _changed(entries[row], line["event"], line)
        return
    if not has_shape(line, _BEGAN):
        return
    entry = ProcessEntry(
        line["process"],
        line["start"],
        line["parent"],
        line["how"],
        tuple(line["command"]),
        has_torch=bool(line.get("has_torch")),
    )
    earlier = latest.get(key)
    if earlier is not None and entry.start and entries[earlier].start == entry.start:
        entries[earlier] = replace(entries[earlier], ended=BECAME_ANOTHER)
    latest[key] = len(entries)
    entries.append(entry)


def _changed(entry: ProcessEntry, event: str, line: dict[str, Any]) -> ProcessEntry:
    if event == RECORDING:
        rank, number = line.get("rank"), line.get("part", entry.process_id)
        if not has_shape(number, COUNT) or not has_shape(rank, (COUNT, None)):
            return entry
        part = Partition(PROCESS, number) if rank is None else Partition(RANK, rank)
        return replace(entry, partition=part)
    if event == REFUSED:
        return replace(entry, refused=str(line["why"]))
    if event == ENDED:
        return replace(entry, ended=str(line["how"]))
    return entry


@dataclass(frozen=True)
class Processes:
    """The processes of a trace folder.

    Attributes:
        folder: the trace folder.
        entries: every known process, in order of its begin.
        parts: folders of the processes that have a trace.
    """

    folder: Path
    entries: tuple[ProcessEntry, ...] = ()
    parts: dict[Partition, Path] = field(default_factory=dict)

    @classmethod
    def in_folder(cls, folder: Path) -> Processes:
        """Read the folder; processes that no list has are known by their traces."""
        parts = partition_folders(folder)
        return cls(folder, tuple(read_journal(folder)), parts).with_parts(parts)

    def with_parts(self, parts: Iterable[Partition]) -> Processes:
        """Copy with the processes of ``parts`` that are missing from the list."""
        listed_parts = {entry.partition for entry in self.entries}
        unknown = [part for part in parts if part not in listed_parts]
        entries = [*self.entries]
        for row, entry in enumerate(entries):
            part_of_id = Partition(PROCESS, entry.process_id)
            if entry.partition is None and part_of_id in unknown:
                entries[row] = replace(entry, partition=part_of_id)
                unknown.remove(part_of_id)
        others = [ProcessEntry(0, partition=part) for part in unknown]
        return replace(self, entries=(*entries, *others))

    def only(self, parts: Collection[Partition]) -> Processes:
        """Copy with only these parts."""
        entries = tuple(entry for entry in self.entries if entry.partition in parts)
        folders = {part: folder for part, folder in self.parts.items() if part in parts}
        return Processes(self.folder, entries, folders)

    def begun_by(self, root: int) -> Processes:
        """A process and its descendants."""
        ids, entries = {root}, []
        for entry in self.entries:
            if {entry.process_id, entry.parent_id} & ids:
                ids.add(entry.process_id)
                entries.append(entry)
        return replace(self, entries=tuple(entries))

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def recorded(self) -> list[ProcessEntry]:
        """Processes with a trace."""
        return [entry for entry in self.entries if entry.partition in self.parts]

    @property
    def unrecorded(self) -> list[ProcessEntry]:
        """Processes without a trace, or whose trace is not written yet."""
        return [entry for entry in self.entries if entry.partition not in self.parts]

    def load(self, part: Partition) -> TraceData:
        """The trace of one process."""
        from opscope.storage.read_part import load_part

        folder = self.parts[part].parent if part in self.parts else self.folder
        return load_part(folder, part)

    def rows_of(self, part: Partition, table: str) -> int:
        """Number of rows of a table of a process's trace, from the manifest only."""
        try:
            return read_manifest(self.parts[part]).tables.get(table, {}).get("rows", 0)
        except (KeyError, TraceFormatError):
            return 0


def metadata_of(folder: Path) -> dict[str, Any]:
    """Metadata of the trace in a part's folder; no other file is read."""
    from pyarrow import ArrowException

    from opscope.storage.parquet import read_whole

    try:
        table = read_whole(folder / "metadata.parquet")
        pairs = zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)
        return {str(key): json.loads(value) for key, value in pairs}
    except (ArrowException, OSError, ValueError, KeyError, TypeError, TraceFormatError):
        return {}
