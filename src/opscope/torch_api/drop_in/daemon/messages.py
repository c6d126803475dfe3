"""What is said between a traced process and Dynolog's daemon, as both projects publish it.

Datagrams over Unix sockets with abstract names, or with files in ``KINETO_IPC_SOCKET_DIR``. Each is
the length of its content (8 bytes), its type (32 bytes, ended by a zero), and the content. The
daemon listens as ``dynolog``.

| type | content | answer |
|---|---|---|
| ctxt | device, process (int32), job (int64) | how many of the job are registered (int32) |
| req | kind, count (int32), job (int64), count processes (int32) | a configuration; often empty |
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Collection, Sequence

DAEMON = "dynolog"
_HEAD = struct.Struct("=Q32s")
_PROCESS = struct.Struct("=iiq")
_ACTIVITIES = 2
_MOST_BYTES = 1 << 16
_MOST_ANCESTORS = 16
_CREDENTIALS = struct.Struct("3i")


class ForeignSenderError(Exception):
    """A message is of a user whose orders this process does not take; of which one."""


def address(name: str) -> str | bytes:
    """Of an endpoint, as ``bind`` and ``sendto`` take it."""
    folder = os.environ.get("KINETO_IPC_SOCKET_DIR", "")
    return f"{folder}/{name}" if folder else b"\0" + name.encode() + b"\0"


def registration(device: int, process: int, job: int) -> bytes:
    """That a process is there."""
    return message("ctxt", _PROCESS.pack(device, process, job))


def question(processes: Sequence[int], job: int) -> bytes:
    """Whether anybody wants a trace of the first of these processes; the others are its parents."""
    head = _PROCESS.pack(_ACTIVITIES, len(processes), job)
    return message("req", head + struct.pack(f"={len(processes)}i", *processes))


def message(kind: str, content: bytes) -> bytes:
    """One datagram."""
    return _HEAD.pack(len(content), kind.encode()) + content


def read_message(data: bytes) -> tuple[str, bytes]:
    """Type and content.

    Raises:
        ValueError: it is no message.
    """
    if len(data) < _HEAD.size:
        raise ValueError("a message that is too short")
    size, kind = _HEAD.unpack_from(data)
    content = data[_HEAD.size :]
    if len(content) < size:
        raise ValueError("a message that is cut")
    return kind.partition(b"\0")[0].decode("ascii", "replace"), content[:size]


def open_endpoint(name: str | bytes) -> socket.socket:
    """A socket of that name, which does not wait, and is told who sent what arrives.

    Raises:
        OSError: there can be none.
    """
    endpoint = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        endpoint.bind(name)
        endpoint.setblocking(False)
    except OSError:
        endpoint.close()
        raise
    return endpoint


def receive(endpoint: socket.socket, trusted: Collection[int]) -> tuple[str, bytes]:
    """The next message.

    Args:
        endpoint: from :func:`open_endpoint`.
        trusted: users that may send one.

    Raises:
        OSError: none arrived in time.
        ForeignSenderError: another user has sent it, who may have taken a name that was free.
        ValueError: it is none.
    """
    data, about, _, _ = endpoint.recvmsg(_MOST_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size))
    user = next((_CREDENTIALS.unpack(said)[1] for level, kind, said in about
                 if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS)
                 and len(said) == _CREDENTIALS.size), None)  # fmt: skip
    if user not in trusted:
        raise ForeignSenderError("unknown" if user is None else str(user))
    return read_message(data)


def ancestors() -> list[int]:
    """This process and those above it, nearest first: a request may name any of them."""
    found = [os.getpid()]
    while found[-1] > 1 and len(found) < _MOST_ANCESTORS:
        try:
            with open(f"/proc/{found[-1]}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
        if parent <= 0:
            break
        found.append(parent)
    return found


def job_id() -> int:
    """The scheduler's number of the job, as Kineto finds it; 0 outside of one."""
    text = os.environ.get("SLURM_JOB_ID", "")
    return int(text) if text.isdecimal() else 0
