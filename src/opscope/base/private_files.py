"""opscope's files and sockets in the program's process.

The program may close all file descriptors and open other files under the same numbers. So each use
checks that the descriptor still refers to opscope's file. These files never have the numbers of
standard streams. ``native/log/own_file.h`` does the same.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

_Socket = TypeVar("_Socket", bound="OwnSocket")
_HIGH = 512  # above the descriptors that most programs open and close
_STANDARD = 3


class OwnFile:
    """An open file that this object owns and closes."""

    def __init__(self, descriptor: int) -> None:
        """Take over ``descriptor``, just opened; the file gets another number."""
        os.fstat(descriptor)
        self._descriptor = _moved_high(descriptor)
        self._identity = _identity_of(self._descriptor)

    @property
    def descriptor(self) -> int:
        """File descriptor; -1 if it no longer refers to this file."""
        return self._descriptor if self.is_ours() else -1

    def is_ours(self) -> bool:
        """Whether the descriptor still refers to this file."""
        try:
            return self._descriptor >= 0 and _identity_of(self._descriptor) == self._identity
        except OSError:
            return False

    def close(self) -> None:
        """Close the file if the descriptor is still ours."""
        if self.is_ours():
            with suppress(OSError):
                os.close(self._descriptor)
        self._descriptor = -1


class OwnSocket:
    """A socket that this object owns and closes.

    Attributes:
        socket: the socket; use it only if ``is_ours()``.
    """

    def __init__(self, opened: socket.socket) -> None:
        """Take over ``opened``; the caller must not use it any more."""
        timeout = opened.gettimeout()
        self._take(OwnFile(opened.detach()))
        self.socket.settimeout(timeout)

    @classmethod
    def of(cls: type[_Socket], file: OwnFile) -> _Socket:
        """Socket of a file descriptor; closing the socket closes the file."""
        own_socket = cls.__new__(cls)
        own_socket._take(file)
        return own_socket

    def _take(self, file: OwnFile) -> None:
        self.socket = socket.socket(fileno=file.descriptor)
        self._file = file

    def is_ours(self) -> bool:
        """Whether the descriptor still refers to this socket."""
        return self._file.is_ours()

    def close(self) -> None:
        """Close the socket if the descriptor is still ours."""
        self.socket.detach()
        self._file.close()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """Close if ours; Python's socket would close any file that has its number now."""
        if hasattr(self, "_file"):
            # At exit this module's functions may be gone; the kernel closes the files soon.
            self.socket.detach() if is_finalizing() else self.close()


def _moved_high(descriptor: int) -> int:
    for least in (_HIGH, _STANDARD) if descriptor < _STANDARD else (_HIGH,):
        try:
            higher = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)
        except OSError:  # the limit of descriptors
            continue
        os.close(descriptor)
        return higher
    return descriptor


def _identity_of(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino
