"""The server's side of one connection; it never blocks.

A client may send anything, in pieces, and read slowly or not at all. The next request is read once
the last answer is sent, so at most one answer is in memory.
"""

from __future__ import annotations

import contextlib
import selectors
import time
from typing import TYPE_CHECKING

from opscope.base.private_files import OwnSocket
from opscope.live.control.protocol import VERSION, ReceivedLines, line_of

if TYPE_CHECKING:
    from opscope.live.control.answers import ControlSession

PATIENCE_S = 20.0
"""Time limit for a started request to arrive, and for an answer to make progress."""
_MOST_BYTES = 1 << 16
"""Longest request."""
_MOST_BRACKETS = 100
"""Most brackets in a request; valid requests nest them twice. If the program raised the recursion
limit, parsing deep nesting could crash it."""


class Connection:
    """Connection of one client; only the server's thread uses it."""

    def __init__(self, own: OwnSocket, session: ControlSession) -> None:
        own.socket.setblocking(False)
        self.own, self._session = own, session
        self._lines = ReceivedLines(own.socket, _MOST_BYTES, _MOST_BRACKETS)
        self._unsent = b""
        self.until_s: float | None = None
        """Time at which a connection without progress is closed; None: never."""

    @property
    def waits_for(self) -> int:
        """The event of ``selectors`` to wait for."""
        return selectors.EVENT_WRITE if self._unsent else selectors.EVENT_READ

    def serve(self) -> bool:
        """Read and write without blocking; returns whether the connection continues."""
        try:
            return self._serve()
        except Exception:  # an error in a request ends only this connection
            return False

    def _serve(self) -> bool:
        if not self.own.is_ours():
            return False
        if not self._unsent and not self._lines.read_some():
            return False
        before = len(self._unsent)
        self._send_some()
        while not self._unsent and (request := self._lines.next()) is not None:
            file = self._lines.files.pop(0) if self._lines.files else None
            try:
                answer = self._session.answer_in_version(request, file)
            finally:
                if file is not None:
                    file.close()
            if not self.own.is_ours():
                return False
            self._unsent = line_of(answer)
            self._send_some()
        self._set_limit(has_moved=len(self._unsent) != before)
        return True

    def _send_some(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._unsent:
                self._unsent = self._unsent[self.own.socket.send(self._unsent[: 1 << 20]) :]

    def _set_limit(self, has_moved: bool) -> None:
        if not self._unsent and not self._lines.has_part:
            self.until_s = None
        elif self.until_s is None or (self._unsent and has_moved):
            self.until_s = time.monotonic() + PATIENCE_S

    def close(self) -> None:
        """End the session and the connection."""
        try:
            with contextlib.suppress(Exception):  # other connections must continue
                self._session.close()
        finally:
            self.forget()

    def forget(self) -> None:
        """Close only files, in a forked child."""
        self._lines.close()
        self.own.close()


def refuse(own: OwnSocket, why: str) -> None:
    """Send an error to a new client, and disconnect it."""
    own.socket.setblocking(False)
    with contextlib.suppress(OSError):
        own.socket.send(line_of({"opscope": VERSION, "error": why}))
    own.close()
