"""Who is at the other end of a Unix socket, as the kernel says."""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass

_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True)
class Peer:
    """A process that connected, or that listens at the socket that was connected to.

    Attributes:
        process: its number as seen from here; 0 where it has none here, as in another container.
        user: of that process.
    """

    process: int
    user: int


def peer_of(connection: socket.socket) -> Peer | None:
    """None where the kernel does not say."""
    try:
        said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except OSError:
        return None
    process, user, _ = _CREDENTIALS.unpack(said)
    return Peer(process, user)


def may_ask(peer: Peer | None) -> bool:
    """Whether this process answers that one: it is of the same user, or of root."""
    return peer is not None and peer.user in (os.getuid(), 0)


def is_process(peer: Peer | None, process: int) -> bool:
    """Whether the one that listens is the process that was meant.

    Sockets lie in folders that the user of that process can write to, and that several containers
    may share; what else listens there may be anything.
    """
    return peer is not None and peer.process == process
