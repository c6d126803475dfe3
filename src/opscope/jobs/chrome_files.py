"""A folder of Chrome traces, one for each rank, as torch.profiler leaves it.

Such files take long to read, so that where all of them are wanted they are read beside each other,
each in a process of its own, and kept as traces for as long as the job is looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from opscope.base.input_file import is_folder, status_of, unreadable
from opscope.base.scratch import Scratch
from opscope.columns.trace_data import TraceData
from opscope.errors import TraceFormatError, UsageError
from opscope.recording.streams.load import load_trace
from opscope.storage.file_kind import FileKind, kind_of_json
from opscope.storage.partition import PROCESS, RANK, Partition, in_order, partition_folders
from opscope.storage.processes import Processes
from opscope.storage.unpacked_file import head_of

_FILE_HEAD_BYTES = 1 << 18
_NAMED_PROCESS = re.compile(
    r'"pid"\s*:\s*"[^"\\]*\D(?<!-)\d+"|"process_name".{,99}"name":"(?:rank|process) \d+: '
)
"""Of a text and a number, as merged files have, or as opscope names processes of a job.
torch.profiler itself writes numbers, and texts without any."""


class ChromeFile:
    """One Chrome file with several processes, read once."""

    def __init__(self, path: Path) -> None:
        from opscope.storage.chrome import load_chrome_processes

        self.path, self._traces = path, load_chrome_processes(path)

    @property
    def parts(self) -> tuple[Partition, ...]:
        """Its processes; none where it is of one."""
        return tuple(part for part in self._traces if part is not None)

    def load(self, part: Partition) -> TraceData:
        """The trace of one."""
        return self._traces[part]

    def prepare(self, parts: tuple[Partition, ...]) -> None:
        """Do nothing: every process of the file is in memory."""

    def metadata(self, part: Partition) -> dict[str, Any]:
        """Metadata of the file."""
        return self._traces[part].metadata

    @property
    def unfinished(self) -> Collection[Partition]:
        """None: a file is written when its recording has ended."""
        return ()

    def tables(self, part: Partition) -> Path | TraceData:
        """The trace, which is in memory."""
        return self._traces[part]

    def folders(self) -> dict[Partition, Path]:
        """None is on disk."""
        return {}

    def processes(self) -> Processes:
        """The processes in the file."""
        return Processes(self.path).with_parts(self.parts)


_READ: WeakValueDictionary[tuple[Path, int, int], ChromeFile] = WeakValueDictionary()
"""Files that are being looked at: a job and what chose from it read one once."""


def chrome_file(path: Path) -> ChromeFile | None:
    """A file with several processes; None for any other."""
    found = status_of(path)
    if found is None or path.is_dir() or not _names_processes(path):
        return None
    key = (path.absolute(), found.st_mtime_ns, found.st_size)
    file = _READ.get(key)
    if file is None:
        file = _READ[key] = ChromeFile(path)
    return file if len(file.parts) > 1 else None


def _names_processes(path: Path) -> bool:
    """Whether a file can be one, by its beginning."""
    try:
        head = head_of(path, _FILE_HEAD_BYTES).decode(errors="replace")
    except TraceFormatError:
        return False  # errors are reported by the reader
    if kind_of_json(head) is not FileKind.CHROME:
        return False
    return _NAMED_PROCESS.search(head) is not None


_SUFFIXES = (".json", ".json.gz")
_HEAD_BYTES = 1 << 20
"""Kineto writes which rank it is before the events."""
_OF_KINETO = (".pt.trace.json", ".pt.trace.json.gz")
"""How files end that are traces, also where nothing in them says so: empty ones, and cut ones."""
_INFO = re.compile(r'"distributedInfo"\s*:\s*')
_RANK_IN_NAME = re.compile(r"rank[-_ =]?(\d{1,5})(?!\d)", re.IGNORECASE)
_PROCESS_IN_NAME = re.compile(r"_(\d{1,9})\.\d+\.pt\.trace\.json")

_MEMORY_PER_BYTE = {".json": 1.5, ".gz": 30}
"""What reading takes, by what a file takes on disk: packing makes a twentieth of it."""


def chrome_files(folder: Path) -> dict[Partition, Path]:
    """The Chrome traces in a folder by their processes; empty where there are none.

    Raises:
        TraceFormatError: the folder cannot be read.
        UsageError: two are of one process, or nothing says which one a file is of.
    """
    if not is_folder(folder):
        return {}
    try:
        files = sorted(file for file in folder.iterdir() if file.name.endswith(_SUFFIXES))
    except OSError as error:
        raise unreadable(folder, error) from error
    heads = {
        file: head
        for file in files
        if _is_trace(head := _head(file)) or file.name.endswith(_OF_KINETO)
    }
    found: dict[Partition, Path] = {}
    for file, head in heads.items():
        part = _part_of(file, head)
        if part is None and len(heads) == 1:
            part = Partition(RANK, 0)
        if part is None:
            raise UsageError(
                f"The rank of {file} is unknown. Rename it like NAME-rank-3.json, or move it to "
                "another folder."
            )
        if part in found:
            raise UsageError(
                f"{found[part].name} and {file.name} in {folder} both belong to {part}. Keep "
                "one file for each rank; put the files of each cycle of a schedule into its "
                "own folder."
            )
        found[part] = file
    return {part: found[part] for part in in_order(found)}


def _part_of(file: Path, head: str) -> Partition | None:
    """By what the file says of itself, or else its name."""
    if match := _INFO.search(head):
        with suppress(ValueError, RecursionError):
            info, _ = json.JSONDecoder().raw_decode(head, match.end())
            rank = info.get("rank") if isinstance(info, dict) else None
            if type(rank) is int and 0 <= rank < 100_000:
                return Partition(RANK, rank)
    if match := _RANK_IN_NAME.search(file.name):
        return Partition(RANK, int(match[1]))
    match = _PROCESS_IN_NAME.search(file.name)
    return Partition(PROCESS, int(match[1])) if match else None


def _is_trace(head: str) -> bool:
    """Whether a file that begins like that is a Chrome trace, or a damaged one."""
    kind = kind_of_json(head)
    return kind is FileKind.CHROME or (kind is FileKind.OTHER and '"traceEvents"' in head)


def _head(file: Path) -> str:
    """Its first part, unpacked; empty if it cannot be read: then only its name counts."""
    with suppress(TraceFormatError):
        return head_of(file, _HEAD_BYTES).decode(errors="replace")
    return ""


class ChromeFolder:
    """The files of a folder, each the recording of a process."""

    def __init__(self, path: Path, files: Mapping[Partition, Path]) -> None:
        self.path, self.files = path, dict(files)
        self._scratch = Scratch()
        self._ready: dict[Partition, Path] = {}  # and the folder that it was read into
        self._damaged: dict[Partition, str] = {}

    def __reduce__(self) -> tuple[type[ChromeFolder], tuple[Path, dict[Partition, Path]]]:
        """A copy reads for itself: what was read here goes with this one."""
        return type(self), (self.path, self.files)

    @property
    def parts(self) -> tuple[Partition, ...]:
        """The processes that there are files of."""
        return tuple(self.files)

    def load(self, part: Partition) -> TraceData:
        """Read one file, if that was not done."""
        if part in self._damaged:
            raise TraceFormatError(self._damaged[part])
        folder = self._ready.get(part)
        # That of a parent is gone when it ends.
        if folder is None or not folder.exists():
            from opscope.storage.chrome import load_chrome_trace

            return load_chrome_trace(self.files[part])
        return load_trace(folder, **{part.kind: part.number})

    def prepare(self, parts: tuple[Partition, ...]) -> None:
        """Read several beside each other, as many as there are processors and memory for; what is
        wrong with one is said when it is loaded."""
        with self._scratch.lock:  # what another thread reads meanwhile is there then
            known = self._ready.keys() | self._damaged.keys()
            wanted = [part for part in parts if part not in known]
            if len(wanted) < 2:
                return
            folder = self._scratch.folder
            self._damaged |= read_files({part: self.files[part] for part in wanted}, folder)
            self._ready |= {part: folder for part in wanted if part not in self._damaged}

    def metadata(self, part: Partition) -> dict[str, Any]:
        """Metadata of a process, from the text before the events of its file."""
        if part in self._ready:
            return dict(self.load(part).metadata)
        head = _head(self.files[part])
        found = {}
        if match := _INFO.search(head):
            with suppress(ValueError, RecursionError):
                found["distributedInfo"], _ = json.JSONDecoder().raw_decode(head, match.end())
        return found

    @property
    def unfinished(self) -> Collection[Partition]:
        """None: a file is written when its recording has ended."""
        return ()

    def tables(self, part: Partition) -> Path | TraceData:
        """The trace read from the file of a process."""
        return self.load(part)

    def folders(self) -> dict[Partition, Path]:
        """Trace folders of the files that were read."""
        read = {folder: partition_folders(folder) for folder in set(self._ready.values())}
        return {
            part: read[folder][part] for part, folder in self._ready.items() if part in read[folder]
        }

    def processes(self) -> Processes:
        """The processes that have a file."""
        return Processes(self.path).with_parts(self.parts)


def read_files(files: Mapping[Partition, Path], folder: Path) -> dict[Partition, str]:
    """Make traces of Chrome files, in ``folder``; returns why some cannot be read."""
    from opscope.jobs.rollup.workers import in_workers  # with Arrow

    tasks = [
        ("read_chrome", str(file), str(folder), part.kind, str(part.number))
        for part, file in files.items()
    ]
    outcome = zip(files, in_workers(tasks, max(map(_bytes_to_read, files.values()))), strict=True)
    return {part: why for part, why in outcome if why}


def _bytes_to_read(file: Path) -> int:
    found = status_of(file)
    return 0 if found is None else int(found.st_size * _MEMORY_PER_BYTE[file.suffix])
