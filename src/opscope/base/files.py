"""Safe opening, reading and removing of files in folders of unknown origin.

The folder that the user names may be a link. Inside it, links are not followed and only plain files
are opened: a pipe waits forever, a device has no end, and a link leads to another user's file. This
module imports nothing of opscope, because the watchdog runs it by its path.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TypeAlias

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_KINDS = {
    stat.S_IFLNK: "it is a link, and opscope follows no links in a folder; copy its target",
    stat.S_IFIFO: "it is a pipe, not a plain file",
    stat.S_IFSOCK: "it is a socket, not a plain file",
    stat.S_IFCHR: "it is a device, not a plain file",
    stat.S_IFBLK: "it is a device, not a plain file",
    stat.S_IFDIR: "it is a folder, not a plain file",
    stat.S_IFREG: "it is a plain file, not a folder",
}
AnyPath: TypeAlias = "str | os.PathLike[str]"


def open_inside(folder: AnyPath, inside: AnyPath, flags: int = os.O_RDONLY) -> int:
    """Open a plain file inside a folder; returns its descriptor.

    Args:
        folder: the folder that the user named.
        inside: path inside the folder: a name, or folders and a name.
        flags: as for ``os.open``; ``O_CREAT`` creates files that only the user can read.

    Raises:
        OSError: the file is missing or not plain, or a folder on the way is a link, or a file to
            write belongs neither to the user nor to the folder's owner.
    """
    *parents, name = os.fspath(inside).split(os.sep)
    path = os.path.join(folder, inside)
    place = _open_folder(folder, parents)
    try:
        return _open_plain(place, name, flags, path)
    except OSError as error:
        error.filename = path  # full path, not only the name
        raise
    finally:
        os.close(place)


def read_inside(folder: AnyPath, inside: AnyPath, most_bytes: int) -> bytes:
    """Content of a plain file inside a folder; OSError if it has more than ``most_bytes``."""
    with open(open_inside(folder, inside), "rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise _refused(f"it has more than {most_bytes:,} bytes", os.path.join(folder, inside))
    return content


def remove_inside(folder: AnyPath, inside: AnyPath) -> None:
    """Remove a file, a link (not its target), or a folder with its content.

    No error if it is missing or cannot be removed.
    """
    *parents, name = os.fspath(inside).split(os.sep)
    with suppress(OSError):
        place = _open_folder(folder, parents)
        try:
            _remove(name, place)
        finally:
            os.close(place)


def is_folder_inside(folder: AnyPath, name: str) -> bool:
    """Whether ``name`` is a folder and not a link."""
    with suppress(OSError):
        return stat.S_ISDIR(os.lstat(os.path.join(folder, name)).st_mode)
    return False


def _open_folder(folder: AnyPath, parents: list[str]) -> int:
    place, path = os.open(folder, _FOLDER), os.fspath(folder)
    for name in parents:
        path = os.path.join(path, name)
        try:
            below = os.open(_checked_name(name, path), _FOLDER | os.O_NOFOLLOW, dir_fd=place)
        except NotADirectoryError as error:
            raise _refused(_kind_of(name, place), path) from error
        finally:
            os.close(place)
        place = below
    return place


def _open_plain(place: int, name: str, flags: int, path: str) -> int:
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with suppress(FileNotFoundError):  # check first: opening a device may have an effect
        status = os.stat(_checked_name(name, path), dir_fd=place, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            raise _refused(_KINDS[stat.S_IFMT(status.st_mode)], path)
    file = os.open(name, flags, 0o600, dir_fd=place)
    opened = os.fstat(file)
    reason = "" if stat.S_ISREG(opened.st_mode) else _KINDS[stat.S_IFMT(opened.st_mode)]
    if flags & (os.O_WRONLY | os.O_RDWR) and opened.st_uid not in _owners(place):
        reason = reason or f"it belongs to user {opened.st_uid}; run this as that user"
    if reason:
        os.close(file)
        raise _refused(reason, path)
    return file


def _owners(place: int) -> set[int]:
    """The user and the folder's owner: some file systems give all files one owner."""
    return {os.geteuid(), os.fstat(place).st_uid}


def _checked_name(name: str, path: str) -> str:
    if name in ("", os.curdir, os.pardir):
        raise _refused("its name points outside the folder", path)
    return name


def _kind_of(name: str, place: int) -> str:
    with suppress(OSError, KeyError):
        return _KINDS[stat.S_IFMT(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode)]
    return os.strerror(errno.ENOTDIR)


def _remove(name: str, place: int) -> None:
    try:
        os.unlink(name, dir_fd=place)
        return
    except (IsADirectoryError, PermissionError):  # a folder
        pass
    for _, folders, files, inner in os.fwalk(name, topdown=False, dir_fd=place):
        for entry in (*files, *folders):
            with suppress(OSError):
                _remove_entry(entry, inner)
    os.rmdir(name, dir_fd=place)


def _remove_entry(name: str, place: int) -> None:
    try:
        os.rmdir(name, dir_fd=place)
    except NotADirectoryError:
        os.unlink(name, dir_fd=place)


def _refused(reason: str, path: str) -> OSError:
    return OSError(errno.EPERM, reason, os.fspath(path))
