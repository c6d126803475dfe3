"""Opening what may be a trace: only folders and plain files are, and whatever else is said so.

A device has no end, a pipe waits for a writer that never comes, and a small file of compressed
zeros fills any memory: none of them may be taken for a trace.
"""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO

from opscope.errors import TraceFormatError
from opscope.leftover.files import open_inside
from opscope.progress import tell

_GZIP = b"\x1f\x8b"
_MOST_EXPANSION = 250
"""JSON of a trace is packed to a thirtieth; only what was made to be large goes to a thousandth."""
_SMALL_BYTES = 1 << 26
"""So much may be in any file, however small."""

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
    """What is at ``path``, None if nothing is.

    Raises:
        TraceFormatError: as :func:`is_folder`.
    """
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
    raise _no_plain_file(path) or unreadable(path, OSError("it is no plain file"))


def open_in_folder(path: Path) -> BinaryIO:
    """Open a file in a folder of ours, which may come from anywhere: no link, and nothing but a
    plain file.

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
    """The path of such a file, for libraries that open it themselves.

    Raises:
        TraceFormatError, FileNotFoundError: as :func:`open_in_folder`.
    """
    open_in_folder(path).close()
    return path


def open_packed(path: Path) -> IO[bytes]:
    """The same, unpacked if it is a gzip file; how much is in one is for the reader to watch."""
    file = open_plain(path)
    packed = file.read(len(_GZIP)) == _GZIP
    file.seek(0)
    if not packed:
        return file
    file.close()
    return gzip.open(path, "rb")  # type: ignore[return-value]


def pieces_of(path: Path, piece_bytes: int) -> Iterator[bytes]:
    """A file's bytes, unpacked if it is a gzip file, a piece at a time; says how far it is.

    Raises:
        TraceFormatError: it is missing, damaged or no plain file, or holds more than a file of its
            size can.
    """
    try:
        with open_packed(path) as file:
            is_packed = isinstance(file, gzip.GzipFile)
            raw = file.fileobj if isinstance(file, gzip.GzipFile) else file
            size = os.fstat(raw.fileno()).st_size
            while piece := file.read(piece_bytes):
                if is_packed:
                    watch_expansion(path, file.tell(), size)
                yield piece
                tell(raw.tell(), size)  # once it was worked with
    except FileNotFoundError as error:
        raise TraceFormatError(f"There is no file {path}. Check the path.") from error
    except GZIP_ERRORS as error:
        raise not_whole(path, error, "Export it again.") from error
    except OSError as error:
        raise unreadable(path, error) from error


def watch_expansion(path: Path, unpacked_bytes: int, file_bytes: int) -> None:
    """Stop reading a gzip file that holds more than any trace of its size does.

    Raises:
        TraceFormatError: it does.
    """
    if unpacked_bytes > max(_SMALL_BYTES, file_bytes * _MOST_EXPANSION):
        raise TraceFormatError(
            f"{shown_path(path)} holds more than {unpacked_bytes >> 20:,} MB in "
            f"{file_bytes >> 10:,} kB, which no trace does: it is damaged or was made to fill the "
            "memory. Check where it comes from; if it is a trace, unpack it with gunzip first."
        )


def not_whole(path: Path, error: Exception, what_to_do: str) -> TraceFormatError:
    """An error about a gzip file that is damaged."""
    return TraceFormatError(
        f"{shown_path(path)} is not a whole gzip file ({error}): it is damaged, or its writer was "
        f"interrupted. {what_to_do}"
    )


GZIP_ERRORS = (gzip.BadGzipFile, EOFError, zlib.error)
"""What reading a damaged gzip file raises."""


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
        f"{shown_path(path)} is {what}, and a trace is a folder of files or a plain file. Write "
        "what comes out of a pipe or device to a file first; check the path otherwise."
    )
