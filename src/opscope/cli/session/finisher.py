"""Sends requests to the process that writes the trace, and waits for it for a limited time."""

from __future__ import annotations

import os
import time
from pathlib import Path
from shlex import quote

from opscope.cli.session.termination import leaving_at_once
from opscope.cli.views.console import Messages
from opscope.launch.keeper_process import DONE
from opscope.recording.streams.keeper import Answer, send_to_keeper
from opscope.recording.streams.trace_request import EndRequest

WAIT = "OPSCOPE_END_WAIT"
"""Environment variable: longest wait for the trace at the program's end, in seconds; for scripts
that read the trace next."""
_LONGEST_S = 1e6
_LEAST_S, _SHARE = 5.0, 0.03
"""A program waits at its end for 5 s or 3 % of its run time, whichever is longer."""


class Finisher:
    """Sends requests one after another; each is executed by another process."""

    def __init__(self, folder: Path, messages: Messages, is_patient: bool = False) -> None:
        """``folder``: folder of the trace; ``is_patient``: wait until the trace is written."""
        self._folder, self._messages, self._is_patient = folder, messages, is_patient
        self._running: Answer | None = None
        self._began_s = time.monotonic()
        self._deadline_s: float | None = None

    def program_ends(self) -> None:
        """Start the time limit: the user waits from now on."""
        now_s = time.monotonic()
        limit_s = _LONGEST_S if self._is_patient else _user_limit_s()
        longest_s = max(_LEAST_S, _SHARE * (now_s - self._began_s)) if limit_s is None else limit_s
        self._deadline_s = now_s + longest_s

    @property
    def _remaining_s(self) -> float:
        if self._deadline_s is None:
            return _LEAST_S
        return max(self._deadline_s - time.monotonic(), 0.0)

    @property
    def is_busy(self) -> bool:
        """Whether a request is not known to be done."""
        return self._running is not None

    def is_working(self) -> bool:
        """Whether another process still executes the request."""
        return self._running is not None and self._running.received() is None

    def request(self, request: EndRequest) -> bool:
        """Send a request after earlier ones are done; False, with a message, if it fails."""
        self.wait(self._remaining_s)
        self._disconnect()
        try:
            self._running = send_to_keeper(
                self._folder, request.as_text(), continues=self._deadline_s is None
            )
        except (OSError, ValueError, TypeError) as error:
            hint = ""
            if request.recording is not None:
                hint = (
                    " The recording is kept; `opscope doctor --recover "
                    f"{quote(str(self._folder))}` writes its trace."
                )
            self._messages.fail(
                f"The process that analyses the trace could not be started: {error}.{hint}"
            )
            return False
        return True

    def wait_at_the_end(self) -> None:
        """Wait for the trace: on a terminal until the user interrupts, else for a short time."""
        if not self.is_busy or self.wait(self._remaining_s):
            return
        if self._messages.is_terminal:
            self._messages.say("another process writes the trace; Ctrl-C does not interrupt it")
            self.wait(None)
        else:
            self._messages.say(
                "another process continues to write the trace; afterwards `opscope summary "
                f"{quote(str(self._folder))}` shows it ({WAIT}=60 waits up to a minute)"
            )
        self._disconnect()

    def wait(self, longest_s: float | None) -> bool:
        """Wait until the request is done or failed; False after ``longest_s`` (None: no limit).

        Raises:
            KeyboardInterrupt: the user interrupted the wait; the other process continues.
        """
        if self._running is None:
            return True
        with leaving_at_once():
            reply = self._running.received(longest_s)
        if reply is None:
            return False
        if reply != DONE:
            self._messages.fail(
                "The process that writes the trace was killed, possibly because memory ran "
                "out. The recording is kept: `opscope doctor --recover "
                f"{quote(str(self._folder))}` writes its trace."
            )
        self._disconnect()
        return True

    def _disconnect(self) -> None:
        if self._running is not None:
            self._running.close()
        self._running = None


def _user_limit_s() -> float | None:
    """Value of ``OPSCOPE_END_WAIT``; None if it is not set or not a valid time."""
    try:
        limit_s = float(os.environ[WAIT])
    except (KeyError, ValueError):
        return None
    return limit_s if 0 <= limit_s < _LONGEST_S else None
