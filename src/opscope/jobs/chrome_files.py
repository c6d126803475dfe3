"""A folder of Chrome traces, one for each rank, as torch.profiler writes them.

Reading such files takes long. So if all are needed, processes read them in parallel, and the traces
are kept as long as the job.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
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
from opscope.storage.job_source import Recordings
from opscope.storage.partition import PROCESS, RANK, Partition, in_order, partition_folders
from opscope.storage.unpacked_file import head_of

_FILE_HEAD_BYTES = 1 << 18
_NAMED_PROCESS = re.compile(
    r'"pid"\s*:\s*"[^"\\]*\D(?<!-)\d+"|"process_name".{,99}"name":"(?:rank|process) \d+: '
)
"""A process id with text and number, as in merged files, or a name that opscope gives to processes
of a job. torch.profiler itself writes numbers, and texts without number."""


class ChromeFile(Recordings):
    """One Chrome file with several processes, read once."""

    def __init__(self, path: Path) -> None:
        from opscope.storage.chrome import load_chrome_processes

        self.path, self._traces = path, load_chrome_processes(path)
        # empty for a file of one process
        self.parts = tuple(part for part in self._traces if part is not None)

    def load(self, part: Partition) -> TraceData:
        """The trace of one process."""
        return self._traces[part]


_READ: WeakValueDictionary[tuple[Path, int, int], ChromeFile] = WeakValueDictionary()
"""Files in use, so that a job and a selection from it read one file once."""


def chrome_file(path: Path) -> ChromeFile | None:
    """A file with several processes; None for any other file."""
    found = status_of(path)
    if found is None or path.is_dir() or not _names_processes(path):
        return None
    key = (path.absolute(), found.st_mtime_ns, found.st_size)
    file = _READ.get(key)
    if file is None:
        file = _READ[key] = ChromeFile(path)
    return file if len(file.parts) > 1 else None


def _names_processes(path: Path) -> bool:
    """Whether a file may have several processes, by its beginning."""
    try:
        head = head_of(path, _FILE_HEAD_BYTES).decode(errors="replace")
    except TraceFormatError:
        return False  # errors are reported by the reader
    if kind_of_json(head) is not FileKind.CHROME:
        return False
    return _NAMED_PROCESS.search(head) is not None


_SUFFIXES = (".json", ".json.gz")
_HEAD_BYTES = 1 << 20  # Kineto writes the rank before the events
_OF_KINETO = (".pt.trace.json", ".pt.trace.json.gz")
"""Suffixes of traces whose content does not show that they are traces: empty or cut ones."""
_INFO = re.compile(r'"distributedInfo"\s*:\s*')
_RANK_IN_NAME = re.compile(r"rank[-_ =]?(\d{1,5})(?!\d)", re.IGNORECASE)
_PROCESS_IN_NAME = re.compile(r"_(\d{1,9})\.\d+\.pt\.trace\.json")

_MEMORY_PER_BYTE = {".json": 1.5, ".gz": 30}
"""Memory for reading per byte on disk; compression makes files about 20 times smaller."""


def chrome_files(folder: Path) -> dict[Partition, Path]:
    """The Chrome traces in a folder, by process; empty if there are none.

    Raises:
        TraceFormatError: the folder cannot be read.
        UsageError: two are of one process, or the process of one is unknown.
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
    by_part: dict[Partition, Path] = {}
    for file, head in heads.items():
        part = _part_of(file, head)
        if part is None and len(heads) == 1:
            part = Partition(RANK, 0)
        if part is None:
            raise UsageError(
                f"The rank of {file} is unknown. Rename it like NAME-rank-3.json, or move it to "
                "another folder."
            )
        if part in by_part:
            raise UsageError(
                f"{by_part[part].name} and {file.name} in {folder} both belong to {part}. Keep "
                "one file for each rank; put the files of each cycle of a schedule into its "
                "own folder."
            )
        by_part[part] = file
    return {part: by_part[part] for part in in_order(by_part)}


def _part_of(file: Path, head: str) -> Partition | None:
    """Process of a file, by its metadata or else its name."""
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
    """Whether a file with this beginning is a Chrome trace, or a damaged one."""
    kind = kind_of_json(head)
    return kind is FileKind.CHROME or (kind is FileKind.OTHER and '"traceEvents"' in head)


def _head(file: Path) -> str:
    """Beginning of a file, uncompressed; empty if it cannot be read: then only its name counts."""
    with suppress(TraceFormatError):
        return head_of(file, _HEAD_BYTES).decode(errors="replace")
    return ""


class ChromeFolder(Recordings):
    """The files of a folder, each with the recording of one process."""

    def __init__(self, path: Path, files: Mapping[Partition, Path]) -> None:
        self.path, self.files, self.parts = path, dict(files), tuple(files)
        self._scratch = Scratch()
        self._ready: dict[Partition, Path] = {}  # folder with the trace, by process
        self._damaged: dict[Partition, str] = {}

    def __reduce__(self) -> tuple[type[ChromeFolder], tuple[Path, dict[Partition, Path]]]:
        """A copy reads the files again: the scratch folder belongs to this object."""
        return type(self), (self.path, self.files)

    def load(self, part: Partition) -> TraceData:
        """The trace of one process; reads its file unless ``prepare`` did."""
        if part in self._damaged:
            raise TraceFormatError(self._damaged[part])
        folder = self._ready.get(part)
        # A forked child's parent may have removed the folder.
        if folder is None or not folder.exists():
            from opscope.storage.chrome import load_chrome_trace

            return load_chrome_trace(self.files[part])
        return load_trace(folder, **{part.kind: part.number})

    def prepare(self, parts: tuple[Partition, ...]) -> None:
        """Read several files in parallel, limited by CPUs and memory; ``load`` raises errors."""
        with self._scratch.lock:  # another thread may have read them in between
            known = self._ready.keys() | self._damaged.keys()
            missing = [part for part in parts if part not in known]
            if len(missing) < 2:
                return
            folder = self._scratch.folder
            self._damaged |= read_files({part: self.files[part] for part in missing}, folder)
            self._ready |= {part: folder for part in missing if part not in self._damaged}

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

    def folders(self) -> dict[Partition, Path]:
        """Trace folders of the files that were read."""
        read = {folder: partition_folders(folder) for folder in set(self._ready.values())}
        return {
            part: read[folder][part] for part, folder in self._ready.items() if part in read[folder]
        }


def read_files(files: Mapping[Partition, Path], folder: Path) -> dict[Partition, str]:
    """Convert Chrome files to traces in ``folder``; returns errors, by process."""
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
