"""Files of recordings that stream: in the folder of the trace that they are to become.

A recording that ended well has no such file any more. One that is there is either under way, or its
process came to an end that it could not notice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from opscope.trace.manifest import MANIFEST
from opscope.trace.partition import Partition, cycle_folders

_NAME = re.compile(r"\.recording-(\d+)-(\d+)\.opscope")

SEGMENTS = ".segments"
"""In place of the suffix of a recording's file: the folder of what was moved out of that."""


def recording_name(process: int, number: int) -> str:
    """What the file of a process's ``number``-th recording is called."""
    return f".recording-{process}-{number}.opscope"


def process_of_recording(path: Path) -> int:
    """Of which process such a file is, by its name."""
    return int(path.name.split("-")[1])


def unfinished_recordings(folder: Path, process: int | None = None) -> list[Path]:
    """Those in ``folder``, oldest first, of one process or of all.

    Raises:
        OSError: the folder cannot be read.
    """
    found = []
    for entry in os.scandir(folder):
        match = _NAME.fullmatch(entry.name)
        if match and process in (None, int(match[1])) and entry.is_file(follow_symlinks=False):
            with suppress(FileNotFoundError):  # its trace was written meanwhile
                found.append((entry.stat().st_mtime_ns, int(match[2]), Path(entry.path)))
    return [path for _, _, path in sorted(found)]


def unfinished_below(folder: Path, process: int | None = None) -> Iterator[Path]:
    """Those in ``folder`` and in its cycles."""
    for place in (folder, *cycle_folders(folder)):
        with suppress(OSError):
            yield from unfinished_recordings(place, process)


def is_later(recording: Path, part: Partition) -> bool:
    """Whether it was written to later than the trace of that part beside it; also without one."""
    manifest = recording.parent / part.folder_name / MANIFEST
    try:
        return recording.stat().st_mtime_ns > manifest.stat().st_mtime_ns
    except FileNotFoundError:
        return recording.exists()
