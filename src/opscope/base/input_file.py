"""Opening a possible trace: folders and plain files are accepted, everything else is refused with
its kind.

A device has no end, a pipe waits for a writer that never comes, and a small file of compressed
zeros fills any memory: none of them may be taken for a trace.
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
    """Whether a folder is there.

    Raises:
        TraceFormatError: it cannot be known, because of the path or of permissions.
    """
    found = status_of(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def status_of(path: Path) -> os.stat_result | None:
    """What is at ``path``, None if nothing is."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error


def open_plain(path: Path) -> BinaryIO:
    """Open a plain file, without waiting for anything.

    Raises:
        TraceFormatError: it is something else, or cannot be read.
        FileNotFoundError: nothing is there.
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
    """Open a file in an opscope folder of unknown origin: no link, and only a plain file.

    Raises:
        TraceFormatError: it is something else, or cannot be read.
        FileNotFoundError: nothing is there.
    """
    try:
        return open(open_inside(path.parent, path.name), "rb")
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error


def checked_in_folder(path: Path) -> Path:
    """The path of such a file, for libraries that open it themselves."""
    open_in_folder(path).close()
    return path


def unreadable(path: Path, error: Exception) -> TraceFormatError:
    """An error about a path that nothing can be read from."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return TraceFormatError(
        f"{shown_path(path)} cannot be read: {reason}. Check the path and its permissions."
    )


def shown_path(path: Path) -> str:
    """The path, with what no terminal or file can take spelled out."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def _no_plain_file(path: Path) -> TraceFormatError | None:
    found = status_of(path)
    what = next((what for test, what in _KINDS if found is not None and test(found.st_mode)), "")
    if not what:
        return None
    return TraceFormatError(
        f"{shown_path(path)} is {what}, but a trace is a folder or a plain file. Check the "
        "path; write data from a pipe or device to a file first."
    )
