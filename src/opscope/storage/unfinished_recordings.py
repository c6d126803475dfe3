"""Recordings in the folder of the trace that they are to become, and that did not end there.

A recording that ended well has no such file any more. One that is there is either under way, or its
process came to an end that it could not notice.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from opscope.base.artefacts import LeftKind, below, find
from opscope.storage.manifest import MANIFEST
from opscope.storage.partition import Partition


def unfinished_recordings(folder: Path) -> list[Path]:
    """The files of those in ``folder``, oldest first.

    Raises:
        OSError: the folder cannot be read.
    """
    return [one.path for one in find(folder, LeftKind.STREAM)]


def unfinished_below(folder: Path) -> Iterator[Path]:
    """Those in ``folder`` and in its cycles."""
    return (one.path for one in below(folder, LeftKind.STREAM))


def is_later(recording: Path, part: Partition) -> bool:
    """Whether it was written to later than the trace of that part beside it; also without one."""
    manifest = recording.parent / part.folder_name / MANIFEST
    try:
        return recording.stat().st_mtime_ns > manifest.stat().st_mtime_ns
    except FileNotFoundError:
        return recording.exists()
