"""Opening a possible trace: only folders and plain files; other kinds raise an error.

A device has no end, and a pipe may wait for a writer forever.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from opscope.base.files import open_inside
from opscope.errors import TraceFormatError

_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISDIR, "a folder"),
)


def is_folder(path: Path) -> bool:
    """Whether ``path`` is a folder.

    Raises:
        TraceFormatError: the path is invalid, or permissions are missing.
    """
    status = status_of(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


def status_of(path: Path) -> os.stat_result | None:
    """Status of the file at ``path``; None if there is none."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error


def open_plain(path: Path) -> BinaryIO:
    """Open a plain file without blocking.

    Raises:
        TraceFormatError: it is not a plain file, or cannot be read.
        FileNotFoundError: there is no file.
    """
    try:
        file = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")  # noqa: SIM115
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise _no_plain_file(path) or unreadable(path, error) from error
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise _no_plain_file(path) or unreadable(path, OSError("it is not a plain file"))


def open_in_folder(path: Path) -> BinaryIO:
    """Open a file in an opscope folder of unknown origin; it must be a plain file and no link.

    Raises:
        TraceFormatError: it is not a plain file, or cannot be read.
        FileNotFoundError: there is no file.
    """
    try:
        return open(open_inside(path.parent, path.name), "rb")
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error


def checked_in_folder(path: Path) -> Path:
    """Check as ``open_in_folder`` does, for libraries that open the file themselves."""
    open_in_folder(path).close()
    return path


def unreadable(path: Path, error: Exception) -> TraceFormatError:
    """Error for a path that cannot be read."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return TraceFormatError(
        f"{shown_path(path)} cannot be read: {reason}. Check the path and its permissions."
    )


def shown_path(path: Path) -> str:
    """Path as text; characters that UTF-8 cannot encode are escaped."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def _no_plain_file(path: Path) -> TraceFormatError | None:
    status = status_of(path)
    kind = next((kind for test, kind in _KINDS if status is not None and test(status.st_mode)), "")
    if not kind:
        return None
    return TraceFormatError(
        f"{shown_path(path)} is {kind}, but a trace is a folder or a plain file. Check the "
        "path; write data from a pipe or device to a file first."
    )
