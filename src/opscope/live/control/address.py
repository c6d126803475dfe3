"""Sockets of listening processes, and identities of their peers."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from opscope.errors import ReachError
from opscope.launch.process_end import is_there

_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True)
class Peer:
    """The process at the other end of a connection."""

    process: int  # its id in this namespace; 0 without one, as in another container
    user: int  # its user id


def peer_of(connection: socket.socket) -> Peer | None:
    """The process at the other end; None if the kernel does not report it."""
    try:
        credentials = connection.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
        )
    except OSError:
        return None
    process, user, _ = _CREDENTIALS.unpack(credentials)
    return Peer(process, user)


def is_allowed_peer(peer: Peer | None) -> bool:
    """Whether this process answers the peer: it has the same user, or is root's."""
    return peer is not None and peer.user in (os.getuid(), 0)


def is_process(peer: Peer | None, process: int) -> bool:
    """Whether the listener is the intended process.

    The socket's folder is writable for that process's user, and several containers may share it, so
    another process may listen at the path.
    """
    return peer is not None and peer.process == process


_SUFFIX = ".sock"
_LONGEST_PATH = 100
"""Longest path of a Unix socket; the kernel has room for 107 bytes."""
_BIND_TO_LISTEN_S = 5.0
"""Longest time between creating a socket and listening."""


@dataclass(frozen=True)
class Address:
    """Address of a process that may listen."""

    process: int  # its id
    path: Path  # path of its socket


def own_folder() -> Path:
    """This user's private folder, created if missing."""
    folder = _folders_of(os.getuid())[0]
    try:
        folder.mkdir(mode=0o700, parents=False, exist_ok=True)
    except OSError as error:
        raise ReachError(
            f"Cannot create a socket in {folder}: {error.strerror or error}. Set XDG_RUNTIME_DIR "
            "to a folder of your own."
        ) from error
    _check(folder, os.getuid())
    return folder


def opened_folder(user: int) -> tuple[Path, int]:
    """Open a user's private folder under /tmp, created if missing; returns path and descriptor."""
    folder = _temporary(user)
    try:
        try:
            folder.mkdir(mode=0o700)
            os.chown(folder, user, -1, follow_symlinks=False)
        except FileExistsError:
            pass
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise ReachError(
            f"{folder} cannot be used: {error.strerror or error}. It must be a folder that only "
            f"user {user} can access; remove it."
        ) from error
    try:
        _check(folder, user, os.fstat(opened))
    except BaseException:
        os.close(opened)
        raise
    return folder, opened


def socket_path(process: int) -> Path:
    """Path of the socket of a process of this user."""
    return own_folder() / f"{process}{_SUFFIX}"


def address_of(process: int) -> Address | None:
    """Address of a process of any user; None without a socket."""
    for owner in {owner_of(process), os.getuid()} - {None}:
        for folder in _folders_of(owner):
            path = folder / f"{process}{_SUFFIX}"
            if path.is_socket():
                _check(folder, owner)
                return Address(process, path)
    return None


def addresses() -> list[Address]:
    """Addresses of all sockets of this user's processes, including ended ones."""
    result = []
    for folder in _folders_of(os.getuid()):
        with contextlib.suppress(OSError, ReachError):
            names = sorted(os.listdir(folder))
            _check(folder, os.getuid())
            for name in names:
                number, dot, _ = name.partition(_SUFFIX)
                if dot and number.isdecimal():
                    result.append(Address(int(number), folder / name))
    return result


def remove_if_stale(address: Address) -> bool:
    """Remove a stale socket; returns whether it was stale.

    A connection attempt decides, not the process id: another process may have the id by now, and a
    process of another container has no id here.
    """
    if not _is_refused(address.path):
        return False
    with contextlib.suppress(OSError):
        age_s = time.time() - os.lstat(address.path).st_mtime
        if is_there(address.process) and age_s < _BIND_TO_LISTEN_S:
            return False
        address.path.unlink()
    return True


def _is_refused(path: Path) -> bool:
    """Whether the kernel refuses a connection; does not wait for the process."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return True
        except OSError:  # its queue is full, or access is denied
            return False
    return False


def _folders_of(user: int | None) -> list[Path]:
    """Folders for sockets of a user's processes; new ones go to the first."""
    temporary = _temporary(user)
    root = os.environ.get("XDG_RUNTIME_DIR", "") if user == os.getuid() else f"/run/user/{user}"
    runtime = Path(root, "opscope")
    is_usable = bool(root) and os.path.isdir(root) and len(os.fsencode(runtime)) < _LONGEST_PATH
    return [runtime, temporary] if is_usable else [temporary]


def _temporary(user: int | None) -> Path:
    return Path(f"/tmp/opscope-{user}")


def _check(folder: Path, owner: int | None, status: os.stat_result | None = None) -> None:
    """Raise ReachError if other users can access the folder: their sockets could be fakes."""
    status = os.lstat(folder) if status is None else status
    is_private = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
    if not is_private or status.st_uid not in (owner, 0):
        raise ReachError(
            f"{folder} is accessible to other users, so its sockets are not trusted. Remove it, "
            "or set XDG_RUNTIME_DIR to a folder of your own."
        )


def owner_of(process: int) -> int | None:
    """User id of a process; None without such a process."""
    try:
        return os.stat(f"/proc/{process}").st_uid
    except OSError:
        return None


def bound(path: Path) -> socket.socket:
    """A socket that listens at ``path``, for this user only."""
    with contextlib.suppress(OSError):
        path.unlink()  # left by an earlier process with this id
    try:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(str(path))
            os.chmod(path, 0o600)
            listener.listen(16)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise ReachError(no_socket(path, error)) from error
    return listener


def no_socket(path: Path, error: OSError) -> str:
    """Error message for a socket that cannot be created."""
    problem = f"Cannot create the socket {path}: {error.strerror or error}. "
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{problem}Close files that are no longer needed, then try again."
    return f"{problem}Set XDG_RUNTIME_DIR to a folder of your own."
