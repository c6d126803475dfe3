"""opscope's files and sockets in the program's process.

The program may close all file descriptors and open other files under the same numbers, so each use
checks that the descriptor still refers to our file. None of ours has the number of standard input,
output or error. ``native/log/own_file.h`` does the same.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

_HIGH = 512
"""Above what programs mostly have, and so above what many of them close."""
_STANDARD = 3


class OwnFile:
    """An open file, which this closes."""

    def __init__(self, descriptor: int) -> None:
        """``descriptor`` was opened just now; the file has another one from now on."""
        os.fstat(descriptor)
        self._descriptor = _out_of_the_way(descriptor)
        self._identity = _identity_of(self._descriptor)

    @property
    def descriptor(self) -> int:
        """Its number; -1 where it is not ours any more."""
        return self._descriptor if self.is_ours() else -1

    def is_ours(self) -> bool:
        """Whether its descriptor still is one of this file."""
        try:
            return self._descriptor >= 0 and _identity_of(self._descriptor) == self._identity
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
        """``made`` was opened just now, and is not used any more."""
        timeout = made.gettimeout()
        self._take(OwnFile(made.detach()))
        self.socket.settimeout(timeout)

    @classmethod
    def of(cls, file: OwnFile) -> OwnSocket:
        """The socket of this file descriptor, which is closed with it."""
        made = cls.__new__(cls)
        made._take(file)
        return made

    def _take(self, file: OwnFile) -> None:
        self.socket = socket.socket(fileno=file.descriptor)
        self._file = file

    def is_ours(self) -> bool:
        """Whether its descriptor still is this socket's."""
        return self._file.is_ours()

    def close(self) -> None:
        """Close it, if it is ours."""
        self.socket.detach()
        self._file.close()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """Likewise: Python's own socket would close whatever has its number by now."""
        if hasattr(self, "_file"):
            # When Python ends, functions of this module may be gone; so are the files, soon.
            self.socket.detach() if is_finalizing() else self.close()


def _out_of_the_way(descriptor: int) -> int:
    for least in (_HIGH, _STANDARD) if descriptor < _STANDARD else (_HIGH,):
        try:
            higher = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)
        except OSError:  # this process may have only so many
            continue
        os.close(descriptor)
        return higher
    return descriptor


def _identity_of(descriptor: int) -> tuple[int, int]:
    there = os.fstat(descriptor)
    return there.st_dev, there.st_ino
