"""What is said over the socket: one JSON object per line, and files that go along.

A request has ``opscope`` (the version of the protocol) and ``do``; an answer has ``error`` or what
was asked for. A file that the asking process has opened is written to by the one that is
asked, so that it may lie wherever the one who asks can write.
"""

from __future__ import annotations

import json
import socket
from typing import Any

from opscope.own_file import OwnFile

VERSION = 1
_MOST_BYTES = 64 << 20
"""Of a line: what a program with very many modules says of them."""
_PART = 1 << 16


class ReceivedLines:
    """Lines from one socket, with the files that came along."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._received = bytearray()
        self.files: list[OwnFile] = []

    def close(self) -> None:
        """Close files that came along and that nobody has taken."""
        while self.files:
            self.files.pop().close()

    def read_some(self) -> bool:
        """Take what has arrived; False at the end.

        Raises:
            ValueError: a line is too long.
            OSError: the connection is gone, or nothing arrived in time.
        """
        data, files, _, _ = socket.recv_fds(self._connection, _PART, 4)
        self.files += map(OwnFile, files)
        self._received += data
        if len(self._received) > _MOST_BYTES:
            raise ValueError("a line is too long")
        return bool(data)

    def next(self) -> dict[str, Any] | None:
        """The next whole line, if it is there.

        Raises:
            ValueError: it is no JSON object.
        """
        text, newline, rest = self._received.partition(b"\n")
        if not newline:
            return None
        self._received = bytearray(rest)
        said = json.loads(text)
        if not isinstance(said, dict):
            raise ValueError("not a JSON object")
        return said


def send(connection: socket.socket, said: dict[str, Any], file: int | None = None) -> None:
    """Send one line and, with it, an open file.

    Raises:
        OSError: the connection is gone.
    """
    data = json.dumps({"opscope": VERSION, **said}).encode() + b"\n"
    if file is None:
        connection.sendall(data)
    else:
        sent = socket.send_fds(connection, [data], [file])
        connection.sendall(data[sent:])
