"""Atomic replacement of a folder that other processes may be reading.

The writer exchanges the two folders in one step, so one always exists. A reader checks afterwards
that the folder is still the same, and otherwise reads again.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from opscope.errors import TraceFormatError

_Read = TypeVar("_Read")
_MAX_ATTEMPTS = 100
_AT_CURRENT_FOLDER = -100
_EXCHANGE = 2


def replace_folder(final: Path, new: Path, old: Path) -> None:
    """Put ``new`` at ``final``; the previous folder is at ``new`` or inside ``old`` afterwards.

    Args:
        final: path where readers look.
        new: complete folder beside it.
        old: folder for the previous one, on file systems that cannot exchange two.
    """
    for attempt in range(_MAX_ATTEMPTS):
        if _exchange(new, final):
            return
        try:
            new.rename(final)
            return
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
        with suppress(FileNotFoundError):  # another process was quicker
            final.rename(old / str(attempt))
    raise OSError(errno.EBUSY, "other processes keep replacing it", str(final))


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two folders; False if one is missing or the system does not support it."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return False
    paths = os.fsencode(first), os.fsencode(second)
    here = _AT_CURRENT_FOLDER
    return bool(rename(here, paths[0], here, paths[1], _EXCHANGE) == 0)


def read_unreplaced(read: Callable[[Path], _Read], find: Callable[[], Path]) -> _Read:
    """Return ``read(folder)`` of a folder that was not replaced during the read.

    Raises:
        TraceFormatError: ``read`` raised it, or the folder was replaced during every attempt.
    """
    for _ in range(_MAX_ATTEMPTS):
        folder = find()
        before = _identity(folder)
        try:
            result = read(folder)
        except TraceFormatError:
            if _identity(folder) == before:
                raise
        else:
            if _identity(folder) == before:
                return result
    raise TraceFormatError(
        f"{folder} is replaced repeatedly during reading. Read it when the writing program has "
        "ended, or let that program write to another folder."
    )


def _identity(folder: Path) -> tuple[int, ...] | None:
    # Inode numbers are reused, but not within a tick of the clock.
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns
