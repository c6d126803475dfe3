"""Client of the process that writes the trace: sends requests, and waits for a little."""

from __future__ import annotations

import os
import socket
import struct
import time
from pathlib import Path
from shlex import quote

from opscope.base.private_files import OwnSocket
from opscope.cli.session.termination import leaving_at_once
from opscope.cli.views.console import Messages
from opscope.launch.keeper_process import DONE
from opscope.recording.streams.keeper import send_to_keeper
from opscope.recording.streams.trace_request import EndRequest

WAIT = "OPSCOPE_END_WAIT"
"""Seconds that a program waits at its end for what is made of its recording; for scripts that use
that next."""
_LONGEST_S = 1e6
_LEAST_S, _SHARE = 2.0, 0.03
"""How long a program waits at its end: the longer of this and of that part of how long it ran."""


class Finisher:
    """Asked for one thing after the other; each of them is another process."""

    def __init__(self, folder: Path, messages: Messages, is_patient: bool = False) -> None:
        """``folder``: of the trace, as its keeper knows it; ``is_patient``: wait until it is."""
        self._folder, self._messages, self._is_patient = folder, messages, is_patient
        self._running: OwnSocket | None = None
        self._began_s = time.monotonic()
        self._leaves_at_s: float | None = None

    def program_ends(self) -> None:
        """From now on the user waits, so limit the time."""
        now_s = time.monotonic()
        asked_s = _LONGEST_S if self._is_patient else _user_patience_s()
        longest_s = max(_LEAST_S, _SHARE * (now_s - self._began_s)) if asked_s is None else asked_s
        self._leaves_at_s = now_s + longest_s

    @property
    def _left_s(self) -> float:
        """Remaining time to wait."""
        if self._leaves_at_s is None:
            return _LEAST_S
        return max(self._leaves_at_s - time.monotonic(), 0.0)

    @property
    def is_busy(self) -> bool:
        """A requested part is not known to be done."""
        return self._running is not None

    def is_working(self) -> bool:
        """Whether another process is at what was asked for; in one system call."""
        if self._running is None or not self._running.is_ours():
            return False
        try:
            self._running.socket.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
        except OSError as error:
            return isinstance(error, BlockingIOError)
        return False

    def ask(self, request: EndRequest) -> bool:
        """Have this done; False, with a message, if it cannot be.

        Waits for earlier requests, so that their messages come first.
        """
        self.wait(self._left_s)
        self._leave()
        try:
            self._running = send_to_keeper(
                self._folder, request.as_text(), goes_on=self._leaves_at_s is None
            )
        except (OSError, ValueError, TypeError) as error:
            kept = ""
            if request.recording is not None:
                kept = (
                    " The recording is kept; `opscope doctor --recover "
                    f"{quote(str(self._folder))}` writes its trace."
                )
            self._messages.fail(
                f"The process that analyses the trace could not be started: {error}.{kept}"
            )
            return False
        return True

    def wait_at_the_end(self) -> None:
        """Wait for the trace: for a short time, or on a terminal until the user interrupts."""
        if not self.is_busy or self.wait(self._left_s):
            return
        if self._messages.is_terminal:
            self._messages.say("another process writes the trace; Ctrl-C does not interrupt it")
            self.wait(None)
        else:
            self._messages.say(
                "another process continues to write the trace; afterwards `opscope summary "
                f"{quote(str(self._folder))}` shows it ({WAIT}=60 waits up to a minute)"
            )
        self._leave()

    def wait(self, longest_s: float | None) -> bool:
        """Whether what was asked for is done, or ended, within so long; None: however long.

        Raises:
            KeyboardInterrupt: the user does not want to wait; it goes on.
        """
        if self._running is None or not self._running.is_ours():
            return True
        with leaving_at_once():
            reply = _received(self._running.socket, longest_s)
        if reply is None:
            return False
        if reply != DONE:
            self._messages.fail(
                "The process that writes the trace was killed, possibly because memory ran "
                "out. The recording is kept: `opscope doctor --recover "
                f"{quote(str(self._folder))}` writes its trace."
            )
        self._leave()
        return True

    def _leave(self) -> None:
        if self._running is not None:
            self._running.close()
        self._running = None


def _user_patience_s() -> float | None:
    """Longest wait that the user allows; None if unset or not a valid time."""
    try:
        asked_s = float(os.environ[WAIT])
    except (KeyError, ValueError):
        return None
    return asked_s if 0 <= asked_s < _LONGEST_S else None


def _received(connection: socket.socket, longest_s: float | None) -> bytes | None:
    """One byte, or none where the other end is closed; None where nothing came in time."""
    # Not settimeout(): poll() fails in a process that may have no more files.
    limit = (0, 0) if longest_s is None else (int(longest_s), int(longest_s % 1 * 1e6))
    flags = socket.MSG_DONTWAIT if longest_s is not None and limit == (0, 0) else 0
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", *limit))
        return connection.recv(1, flags)
    except BlockingIOError:
        return None
    except OSError:
        return b""
