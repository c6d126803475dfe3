"""The protocol of the socket: one JSON object per line, with file descriptors.

A request has ``opscope`` (the version of the protocol) and ``do``; an answer has ``error`` or the
result. The client passes an open file, which the process writes to.
"""

from __future__ import annotations

import json
import socket
from typing import Any

from opscope.base.private_files import OwnFile

VERSION = 1
_MOST_BYTES = 64 << 20
"""Longest line; the longest answers are facts of programs with very many modules."""
_MOST_FILES = 4
"""Maximum number of received files that were not taken from ``files``."""
_PART = 1 << 16


class ReceivedLines:
    """Lines from one socket, with the files sent along."""

    def __init__(
        self,
        connection: socket.socket,
        most_bytes: int = _MOST_BYTES,
        most_brackets: int | None = None,
    ) -> None:
        """Set the limits of a line; ``most_brackets`` None: only Python's recursion limit."""
        self._connection = connection
        self._most_bytes, self._most_brackets = most_bytes, most_brackets
        self._received = bytearray()
        self._searched_bytes = 0
        self.files: list[OwnFile] = []

    def close(self) -> None:
        """Close received files that were not taken from ``files``."""
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
        end = self._received.find(b"\n", self._searched_bytes)
        if end < 0:
            self._searched_bytes = len(self._received)
            return None
        text = bytes(self._received[:end])
        del self._received[: end + 1]
        self._searched_bytes = 0
        brackets = text.count(b"[") + text.count(b"{")
        if self._most_brackets is not None and brackets > self._most_brackets:
            raise ValueError("too many brackets")
        try:
            message = json.loads(text)
        except RecursionError:
            raise ValueError("brackets are nested too deeply") from None
        if not isinstance(message, dict):
            raise ValueError("not a JSON object")
        return message


def line_of(message: dict[str, Any]) -> bytes:
    """The message as a line of the protocol."""
    return json.dumps({"opscope": VERSION, **message}).encode() + b"\n"


def send(connection: socket.socket, message: dict[str, Any], file: int | None = None) -> None:
    """Send one line, with an open file if there is one."""
    data = line_of(message)
    if file is None:
        connection.sendall(data)
    else:
        sent = socket.send_fds(connection, [data], [file])
        connection.sendall(data[sent:])
