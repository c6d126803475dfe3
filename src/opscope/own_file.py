"""Files and sockets of ours in the program's process.

The program may close all files that it might have opened, and open others under the same numbers:
such a one is none of ours to read, to write or to close.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress


class OwnFile:
    """An open file by its descriptor, which this closes."""

    def __init__(self, descriptor: int) -> None:
        """``descriptor`` was opened just now.

        Raises:
            OSError: it was not.
        """
        self._descriptor = descriptor
        self._identity = _identity_of(descriptor)

    def is_ours(self) -> bool:
        """Whether its descriptor still is one of this file."""
        try:
            return _identity_of(self._descriptor) == self._identity
        except OSError:
            return False

    def close(self) -> None:
        """Close it, if it is ours."""
        if self.is_ours():
            with suppress(OSError):
                os.close(self._descriptor)
        self._descriptor = -1


class OwnSocket:
    """A socket, which this closes.

    Attributes:
        socket: itself; not to be used where it is not ours.
    """

    def __init__(self, made: socket.socket) -> None:
        """``made`` was opened just now.

        Raises:
            OSError: it was not.
        """
        self.socket = made
        self._file = OwnFile(made.fileno())

    def is_ours(self) -> bool:
        """Whether its descriptor still is this socket's."""
        return self._file.is_ours()

    def close(self) -> None:
        """Close it, if it is ours."""
        if self.socket.fileno() >= 0:
            self.socket.detach()
            self._file.close()


def _identity_of(descriptor: int) -> tuple[int, int]:
    there = os.fstat(descriptor)
    return there.st_dev, there.st_ino
