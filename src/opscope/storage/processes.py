"""The processes of a trace folder: which there were, what of each was recorded, how each ended.

``processes.jsonl`` has a line for every Python process that began, was recorded, or ended. Lines
are appended by one write each, so processes need not wait for each other.
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
from opscope.base.untrusted_files import COUNT, TIME_NS, Shape, has_shape, parsed_json
from opscope.columns.trace_data import TraceData
from opscope.errors import TraceFormatError
from opscope.storage.manifest import read_manifest
from opscope.storage.partition import PROCESS, RANK, Partition, partition_folders

PROCESSES = "processes.jsonl"
JOB, BEGAN, PART, RECORDING = "job", "began", "part", "recording"
REFUSED, ENDED = "refused", "ended"
BECAME_ANOTHER = "became another program (exec)"
AGAIN = 10_000_000
"""Added to the number of a part where an earlier one of the folder has it: process ids come again,
and a process that becomes another program keeps its own."""
_LINE: Shape = {"process": COUNT, "event": str}
_BEGAN: Shape = {"start": COUNT, "parent": COUNT, "how": str, "time_ns": TIME_NS, "command": [str]}
_MOST_BYTES = 64 << 20  # of a file that may come from anywhere: some hundred thousand processes
_MOST_JOB_BYTES = 200


@dataclass(frozen=True)
class ProcessEntry:
    """Facts about one process.

    Attributes:
        process_id: of the system.
        start: when it started, in the kernel's ticks since boot: tells it from a later one of the
            same number.
        parent_id: of the process that started it; 0 if unknown.
        how_begun: ``program``, ``started`` (as a program of its own) or ``forked``.
        began_ns: Unix time at which it was noticed.
        command: its command line.
        partition: where its trace is or will be; None if nothing of it was recorded.
        refused: why nothing was; empty otherwise.
        ended: how it ended; empty while that is not known.
        has_torch: it had torch when it began, from the process that it was forked from.
    """

    process_id: int
    start: int = 0
    parent_id: int = 0
    how_begun: str = ""
    began_ns: int = 0
    command: tuple[str, ...] = field(default=())
    partition: Partition | None = None
    refused: str = ""
    ended: str = ""
    has_torch: bool = False


def append(folder: Path, line: Mapping[str, Any]) -> bool:
    """Add a line, if the folder is there; whether it was."""
    text = json.dumps(line) + "\n"
    with suppress(OSError):
        file = open_inside(folder, PROCESSES, os.O_WRONLY | os.O_APPEND)
        try:
            return os.write(file, text.encode()) == len(text)
        finally:
            os.close(file)
    return False


def read_journal(folder: Path) -> list[ProcessEntry]:
    """The processes in the order in which they began; empty without such a file.

    Those of a cycle of a schedule are in the folder that holds all cycles. Lines that make no
    sense are passed over: the file may be cut where its writer was killed.
    """
    entries: list[ProcessEntry] = []
    latest: dict[tuple[int, int], int] = {}
    for line in _lines(_journal_of(folder)):
        with suppress(ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
            _apply(parsed_json(line, _LINE), entries, latest)
    return entries


def reserve_number(folder: Path, process: int) -> int:
    """Reserve the number of a process's part; it may have one already.

    Two containers may have processes of one number at the same time: who is first in the list has
    the part.
    """
    claim = os.urandom(8).hex()
    while True:
        number, taken = process, _claims(folder)
        while number in taken:
            number += AGAIN
        record = append(folder, {"event": PART, "process": process, "part": number, "claim": claim})
        if not record or _claims(folder).get(number) == claim:
            return number


def _claims(folder: Path) -> dict[int, str]:
    """By number of the part, its first claim."""
    found: dict[int, str] = {}
    for line in _lines(_journal_of(folder)):
        with suppress(ValueError, TypeError, KeyError):
            record = json.loads(line)
            if record["event"] in (PART, RECORDING) and record.get("rank") is None:
                number = int(record.get("part", record["process"]))
                found.setdefault(number, str(record.get("claim", "")))
    return found


def begin_job(folder: Path) -> None:
    """Say which job the processes are of that are recorded to a folder from now on."""
    append(folder, {"event": JOB, "id": os.urandom(8).hex()})


def job_of(folder: Path) -> str:
    """Which one that is; empty where it was not said."""
    for line in _lines(_journal_of(folder), _MOST_JOB_BYTES):
        with suppress(ValueError, TypeError, KeyError):
            record = json.loads(line)
            return str(record["id"]) if record["event"] == JOB else ""
    return ""


def _journal_of(folder: Path) -> Path:
    own = folder / PROCESSES
    if own.exists() or not folder.absolute().name.startswith("cycle-"):
        return own
    return folder.absolute().parent / PROCESSES


def _lines(file: Path, most_bytes: int = _MOST_BYTES) -> Iterator[bytes]:
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
    began = ProcessEntry(
        line["process"],
        line["start"],
        line["parent"],
        line["how"],
        line["time_ns"],
        tuple(line["command"]),
        has_torch=bool(line.get("has_torch")),
    )
    earlier = latest.get(key)
    if earlier is not None and began.start and entries[earlier].start == began.start:
        entries[earlier] = replace(entries[earlier], ended=BECAME_ANOTHER)
    latest[key] = len(entries)
    entries.append(began)


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
        folder: of the trace.
        entries: every process that is known of, in the order in which they began.
        parts: the folders of those that there are traces of.
    """

    folder: Path
    entries: tuple[ProcessEntry, ...] = ()
    parts: dict[Partition, Path] = field(default_factory=dict)

    @classmethod
    def in_folder(cls, folder: Path) -> Processes:
        """Look into one; processes that are in no list are known by their traces alone."""
        parts = partition_folders(folder)
        return cls(folder, tuple(read_journal(folder)), parts).with_parts(parts)

    def with_parts(self, parts: Iterable[Partition]) -> Processes:
        """Copy with the processes of ``parts`` that are missing from the list."""
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
        """A process and its descendants."""
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
        """Processes with a trace."""
        return [entry for entry in self.entries if entry.partition in self.parts]

    @property
    def unrecorded(self) -> list[ProcessEntry]:
        """Processes without a trace, or whose trace is not written yet."""
        return [entry for entry in self.entries if entry.partition not in self.parts]

    def load(self, part: Partition) -> TraceData:
        """The trace of one."""
        from opscope.storage.read_part import load_part

        folder = self.parts[part].parent if part in self.parts else self.folder
        return load_part(folder, part)

    def rows_of(self, part: Partition, table: str) -> int:
        """Number of rows of a table of a process's trace; nothing else is read."""
        try:
            return read_manifest(self.parts[part]).tables.get(table, {}).get("rows", 0)
        except (KeyError, TraceFormatError):
            return 0


def metadata_of(folder: Path) -> dict[str, Any]:
    """Metadata of the trace in a part's folder; nothing else is read."""
    from pyarrow import ArrowException

    from opscope.storage.parquet import read_whole

    try:
        table = read_whole(folder / "metadata.parquet")
        pairs = zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)
        return {str(key): json.loads(value) for key, value in pairs}
    except (ArrowException, OSError, ValueError, KeyError, TypeError, TraceFormatError):
        return {}
