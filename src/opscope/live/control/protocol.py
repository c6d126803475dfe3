"""The protocol of the socket: one JSON object per line, with file descriptors.

A request has ``opscope`` (the version of the protocol) and ``do``; an answer has ``error`` or
the result. The process writes to a file that the client has opened, so the file may be anywhere
that the client can write to.
"""

from __future__ import annotations

import json
import socket
from typing import Any

from opscope.base.private_files import OwnFile

VERSION = 1
_MOST_BYTES = 64 << 20
"""Longest answer: facts of a program with very many modules."""
_MOST_FILES = 4
"""Most received files that are not taken yet."""
_PART = 1 << 16


class ReceivedLines:
    """Lines from one socket, with the files sent along."""

    def __init__(
        self,
        connection: socket.socket,
        most_bytes: int = _MOST_BYTES,
        most_brackets: int | None = None,
    ) -> None:
        """Refuse longer lines, and lines with more brackets; None: no limit but Python's."""
        self._connection = connection
        self._most_bytes, self._most_brackets = most_bytes, most_brackets
        self._received = bytearray()
        self._looked_to = 0
        self.files: list[OwnFile] = []

    def close(self) -> None:
        """Close received files that were not taken."""
        while self.files:
            self.files.pop().close()

    def read_some(self) -> bool:
        """Read available data; False at the end."""
        data, files, _, _ = socket.recv_fds(self._connection, _PART, _MOST_FILES)
        self.files += map(OwnFile, files)
        self._received += data
        if len(self._received) > self._most_bytes:
            raise ValueError("a line is too long")
        if len(self.files) > _MOST_FILES:
            raise ValueError("too many files")
        return bool(data)

    @property
    def has_part(self) -> bool:
        """Whether an incomplete line has been received."""
        return bool(self._received)

    def next(self) -> dict[str, Any] | None:
        """The next complete line; None without one."""
        end = self._received.find(b"\n", self._looked_to)
        if end < 0:
            self._looked_to = len(self._received)
            return None
        text = bytes(self._received[:end])
        del self._received[: end + 1]
        self._looked_to = 0
        brackets = text.count(b"[") + text.count(b"{")
        if self._most_brackets is not None and brackets > self._most_brackets:
            raise ValueError("too many brackets")
        try:
            message = json.loads(text)
        except RecursionError:
            raise ValueError("brackets in brackets, too many") from None
        if not isinstance(message, dict):
            raise ValueError("not a JSON object")
        return message


def line_of(message: dict[str, Any]) -> bytes:
    """The message in the form that is sent."""
    return json.dumps({"opscope": VERSION, **message}).encode() + b"\n"


def send(connection: socket.socket, message: dict[str, Any], file: int | None = None) -> None:
    """Send one line and, with it, an open file."""
    data = line_of(message)
    if file is None:
        connection.sendall(data)
    else:
        sent = socket.send_fds(connection, [data], [file])
        connection.sendall(data[sent:])
