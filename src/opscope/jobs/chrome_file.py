"""One Chrome file with the recordings of several processes, as serving engines merge them."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from opscope.base.input_file import status_of
from opscope.columns.trace_data import TraceData
from opscope.errors import TraceFormatError
from opscope.storage.chrome import load_chrome_processes
from opscope.storage.file_kind import FileKind, kind_of_json
from opscope.storage.partition import Partition
from opscope.storage.processes import Processes
from opscope.storage.unpacked_file import head_of

_HEAD_BYTES = 1 << 18
_NAMED_PROCESS = re.compile(
    r'"pid"\s*:\s*"[^"\\]*\D(?<!-)\d+"|"process_name".{,99}"name":"(?:rank|process) \d+: '
)
"""Of a text and a number, as merged files have, or as opscope names processes of a job.
torch.profiler itself writes numbers, and texts without any."""


class ChromeFile:
    """What it holds, by process; read once."""

    def __init__(self, path: Path) -> None:
        self.path, self._traces = path, load_chrome_processes(path)

    @property
    def parts(self) -> tuple[Partition, ...]:
        """Its processes; none where it is of one."""
        return tuple(part for part in self._traces if part is not None)

    def load(self, part: Partition) -> TraceData:
        """The trace of one."""
        return self._traces[part]

    def prepare(self, parts: tuple[Partition, ...]) -> None:
        """All are there."""

    def metadata(self, part: Partition) -> dict[str, Any]:
        """What the file says beside its events."""
        return self._traces[part].metadata

    @property
    def unfinished(self) -> Collection[Partition]:
        """None: a file is written when its recording has ended."""
        return ()

    def tables(self, part: Partition) -> Path | TraceData:
        """In memory."""
        return self._traces[part]

    def folders(self) -> dict[Partition, Path]:
        """None is on disk."""
        return {}

    def processes(self) -> Processes:
        """Those that it holds."""
        return Processes(self.path).with_parts(self.parts)


_READ: WeakValueDictionary[tuple[Path, int, int], ChromeFile] = WeakValueDictionary()
"""Files that are being looked at: a job and what chose from it read one once."""


def chrome_file(path: Path) -> ChromeFile | None:
    """A file with several processes; None for any other.

    Raises:
        TraceFormatError: it is one, and damaged.
    """
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
        head = head_of(path, _HEAD_BYTES).decode(errors="replace")
    except TraceFormatError:
        return False  # what is wrong is said where it is read
    if kind_of_json(head) is not FileKind.CHROME:
        return False
    return _NAMED_PROCESS.search(head) is not None
