"""Client of a listening process. All waits have limits: the process may be stopped or blocked."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from opscope.errors import ReachError
from opscope.launch.process_end import is_there, state_of
from opscope.live.control.address import Address, address_of, is_process, peer_of
from opscope.live.control.protocol import VERSION, ReceivedLines, send

ANSWER_S = 5.0
"""Time limit of the first answer."""
WORK_S = 120.0
"""Time limit of a request: compiling the bridge, writing a log."""
_ENDING_S = 5.0
"""Longest time from closing the socket to the process's end."""
_POLL_S = 1.0
_STOPPED = ("T", "t")
"""States of a stopped process, which cannot answer."""
_RECONNECT_S = 1.5
_RETRY_DELAY_S = 0.1


class ControlClient:
    """A connection to one process."""

    def __init__(self, address: Address, answer_s: float = ANSWER_S) -> None:
        """Connect, and read ``status``."""
        self._address = address
        try:
            self.status = self._connect(answer_s)
        except TimeoutError:
            raise self._no_answer(answer_s) from None
        except (OSError, ValueError) as error:
            raise self._unreachable(error) from error

    def request(
        self, do: str, limit_s: float = WORK_S, file: int | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Send a request, and return the answer."""
        try:
            return self._exchange({"do": do, **fields}, limit_s, file)
        except TimeoutError:
            raise self._no_answer(limit_s) from None
        except (OSError, ValueError) as error:
            raise self._unreachable(error) from error

    def request_log(self, do: str, **fields: Any) -> tuple[bytes, dict[str, Any]]:
        """Log and answer of ``do``; the log is empty if the process made a trace."""
        with tempfile.TemporaryFile() as file:
            answer = self.request(do, file=file.fileno(), **fields)
            file.seek(0)
            return file.read(), answer

    def wait(self, seconds: float) -> None:
        """Wait for this time, or until the process ends the connection."""
        select.select([self._socket], [], [], seconds)  # without a request nothing arrives

    def close(self) -> None:
        """Disconnect; the process drops recordings of this connection."""
        self._socket.close()

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connect(self, answer_s: float) -> dict[str, Any]:
        until_s = time.monotonic() + min(_RECONNECT_S, answer_s)
        while time.monotonic() < until_s and is_there(self._address.process):
            with contextlib.suppress(ConnectionError):
                return self._first_answer(answer_s)
            # The program may have closed the socket: then opscope makes another, with the GIL.
            time.sleep(_RETRY_DELAY_S)
        return self._first_answer(answer_s)

    def _first_answer(self, answer_s: float) -> dict[str, Any]:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._line = ReceivedLines(self._socket)
        try:
            self._socket.settimeout(answer_s)
            self._socket.connect(str(self._address.path))
            if not is_process(peer_of(self._socket), self._address.process):
                raise ReachError(
                    f"The process that listens at {self._address.path} is not the one in its "
                    "name; it may be in another container. `opscope attach` lists the "
                    "reachable processes."
                )
            return self._exchange({"do": "status"}, answer_s)
        except BaseException:
            self._socket.close()
            raise

    def _exchange(
        self, fields: dict[str, Any], limit_s: float, file: int | None = None
    ) -> dict[str, Any]:
        until_s = time.monotonic() + limit_s
        self._socket.settimeout(limit_s)
        with contextlib.suppress(ConnectionError):  # the answer may say why it was closed
            send(self._socket, fields, file)
        answer = self._next_answer(until_s)
        if "error" in answer:
            raise ReachError(f"Process {self._address.process} answered: {answer['error']}")
        return answer

    def _next_answer(self, until_s: float) -> dict[str, Any]:
        began_s = time.monotonic()
        while (answer := self._line.next()) is None:
            now_s = time.monotonic()
            is_stopped = now_s - began_s > ANSWER_S and state_of(self._address.process) in _STOPPED
            if now_s >= until_s or is_stopped:
                raise TimeoutError
            self._socket.settimeout(min(until_s - now_s, _POLL_S))
            try:
                if not self._line.read_some():
                    raise ConnectionResetError("it has closed the connection")
            except TimeoutError:
                continue
        if answer.get("opscope") != VERSION and "error" not in answer:
            raise ValueError(f"it answers in version {answer.get('opscope')} of the protocol")
        return answer

    def _no_answer(self, limit_s: float) -> ReachError:
        process = self._address.process
        known_reason = why_silent(process)
        why = known_reason or "most likely C code holds its GIL, or it serves another request"
        if known_reason:
            limit_s = min(limit_s, ANSWER_S)
        return ReachError(
            f"Process {process} does not answer within {limit_s:g} s: {why}. Try again later; a "
            "flight recorder with a Hang or an OnSignal trigger writes a dump even then."
        )

    def _unreachable(self, error: Exception) -> ReachError:
        process = self._address.process
        has_disconnected = isinstance(error, (ConnectionError, FileNotFoundError))
        if has_disconnected:
            _wait_for_end(process)
        if not is_there(process):
            return ReachError(
                f"Process {process} has ended, and its recording is lost; use `opscope run` to "
                "keep a recording until the end of a program."
            )
        reason = getattr(error, "strerror", None) or str(error)
        if has_disconnected:
            reason = "it no longer listens: it became another program (exec) or is ending"
        return ReachError(
            f"Process {process} is not reachable: {reason}. `opscope attach` lists the "
            "reachable processes."
        )


def why_silent(process: int) -> str | None:
    """Why a process cannot answer, by its state in the kernel; None if it could."""
    return {
        "T": "it is stopped (kill -CONT continues it)",
        "t": "a debugger has stopped it",
        "D": "it waits for a disk or a device",
        "Z": "it has ended",
    }.get(state_of(process))


def connect(process: int, answer_s: float = ANSWER_S) -> ControlClient:
    """Connect to a process that listens.

    Raises:
        ReachError: the process does not exist, listen or answer.
    """
    address = address_of(process)
    if address is None:
        raise ReachError(_not_listening(process))
    return ControlClient(address, answer_s)


def _wait_for_end(process: int) -> None:
    """Wait for the end of a process that closed its socket."""
    until_s = time.monotonic() + _ENDING_S
    while is_there(process) and time.monotonic() < until_s:
        time.sleep(0.01)


def _not_listening(process: int) -> str:
    if not is_there(process):
        return f"There is no process {process}. `opscope attach` lists the reachable processes."
    return (
        f"Process {process} does not listen ({_command_of(process)}). Start it with "
        "OPSCOPE_CONTROL=1 under `opscope run`, or with an import of opscope, or let it call "
        f"opscope.listen(). {_other_ways()}"
    )


def _other_ways() -> str:
    if hasattr(sys, "remote_exec"):
        return (
            "`opscope attach` can also make its Python listen, if both have exactly the same "
            "version."
        )
    return "From Python 3.14 on, `opscope attach` can make a process listen; this Python is older."


def _command_of(process: int) -> str:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        return os.fsdecode(b" ".join(words)).strip()[:120] or "a kernel thread"
    return "its command line cannot be read"
