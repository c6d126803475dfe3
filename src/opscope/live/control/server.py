"""``listen``: a socket of this process, and a daemon thread that answers requests.

Between requests the thread waits for the socket, without the GIL or any lock. Importing this module
does not import the recorder.

A program may close files that it did not open, and reuse their numbers. The server then makes a new
socket at the next connection, and clients try again.

A client may send anything, in pieces, and read slowly or not at all. The next request is read once
the last answer is sent, so at most one answer is in memory.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opscope.base.daemon_thread import OwnThread, short_turns
from opscope.base.notice import notice
from opscope.base.private_files import OwnSocket
from opscope.errors import ReachError
from opscope.launch.torch_import import when_imported
from opscope.live.control.address import (
    addresses,
    bound,
    is_allowed_peer,
    no_socket,
    peer_of,
    remove_if_stale,
    socket_path,
)
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
                answer = self._session.answer(request, file)
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


_MOST_CONNECTIONS = 16
_FIRST_CLIENT_S = 10.0
"""Time that ``listen_until_unused`` waits for the first client."""
_RETRY_DELAY_S = 0.05
_NO_FILES = (OSError, ImportError)
"""Errors of imports with too many open files; compiled modules raise ImportError."""
_server: Server | None = None
_deciding = threading.RLock()
"""Held while the server to use is chosen, or an unused one is ended."""


def listen() -> None:
    """Let `opscope attach` and `opscope top` control this process.

    Only processes of the same user or of root can connect. No effect if the process already
    listens. A forked child does not listen until it calls this function.

    Raises:
        ReachError: a socket or a thread cannot be created.
    """
    _begin(until_unused=False)


def listen_until_unused() -> None:
    """Listen until no client is connected and no requested recording runs."""
    _begin(until_unused=True)


def _begin(until_unused: bool) -> None:
    global _server
    with _deciding:
        if _server is not None:
            return None if until_unused else _server.stay()
        server = Server(until_unused)
        server.begin()
        _server = server
    server.watch(when_imported("torch", _import_recorder).forget)


def _import_recorder() -> None:
    """Import the recorder together with torch, which takes long anyway."""
    with contextlib.suppress(*_NO_FILES):  # then the first request imports it
        importlib.import_module("opscope.live.control.recordings")


def stop_listening() -> None:
    """Stop listening; requested recordings are discarded."""
    global _server
    server, _server = _server, None
    if server is not None:
        server.end()


def is_listening() -> bool:
    """Whether this process listens."""
    return _server is not None


class Server:
    """The socket and the thread."""

    def __init__(self, until_unused: bool = False) -> None:
        self._ends_unused = until_unused
        self._until_s = time.monotonic() + _FIRST_CLIENT_S
        self._forget_torch: Callable[[], None] | None = None
        self._is_bound = False
        self._path = socket_path(os.getpid())
        self._process = os.getpid()
        self._ends = False
        self._selector = selectors.PollSelector()  # has no file descriptor
        try:
            for address in addresses():
                remove_if_stale(address)
            self._open()
        except OSError as error:
            raise ReachError(no_socket(self._path, error)) from error
        self._thread = OwnThread(self._run, self._request_end)
        self._connections: dict[OwnSocket, Connection] = {}
        self._started: Any = None
        self._listening_since_ns = time.time_ns()

    def _open(self) -> None:
        self._socket = OwnSocket(bound(self._path))
        self._is_bound = True
        self._selector.register(self._socket.socket, selectors.EVENT_READ, self._socket)

    def begin(self) -> None:
        """Start answering."""
        atexit.register(self._remove)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._close()
            raise ReachError(
                f"This process cannot start the thread that answers requests: {error}. Check the "
                "limit of threads (`ulimit -u`), then try again."
            ) from error

    def end(self) -> None:
        """Stop answering."""
        self._thread.request_end()
        self._thread.join(PATIENCE_S)

    def _request_end(self) -> None:
        self._ends = True
        if self._socket.is_ours():
            with contextlib.suppress(OSError):
                self._socket.socket.shutdown(socket.SHUT_RDWR)  # which wakes the thread
                return
        # The thread still waits for the old socket, even if the program closed it.
        stream = socket.SOCK_STREAM | socket.SOCK_NONBLOCK
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, stream) as probe:
            probe.connect(os.fspath(self._path))

    def forget(self) -> None:
        """Close the copies of the parent's sockets, in a forked child."""
        self._close()
        for connection in self._connections.values():
            connection.forget()

    def _close(self) -> None:
        if self._forget_torch is not None:
            self._forget_torch()
        atexit.unregister(self._remove)
        self._selector.close()
        self._remove()
        self._socket.close()

    def _remove(self) -> None:
        if os.getpid() == self._process and self._is_bound:
            self._is_bound = False  # the path may belong to another process by now
            with contextlib.suppress(OSError):
                self._path.unlink()

    def _run(self) -> None:
        global _server
        try:
            self._answer_all()
        except Exception as error:
            notice(
                f"`opscope attach` no longer works for this process: {type(error).__name__}: "
                f"{error}"
            )
        finally:
            if _server is self:
                _server = None
            self._close()

    def watch(self, forget: Callable[[], None]) -> None:
        """``forget`` removes the hook on the import of torch; called at the end."""
        self._forget_torch = forget
        if self._ends:
            forget()

    def stay(self) -> None:
        """Listen without clients too; called with the lock held."""
        self._ends_unused = False

    def _end_if_unused(self) -> None:
        with _deciding:
            is_used = self._connections or (self._started is not None and self._started.recording)
            if self._ends_unused and not is_used and time.monotonic() >= self._until_s:
                self._remove()
                self._end_from_inside()

    def _wait_s(self) -> float | None:
        limits = [one.until_s for one in self._connections.values() if one.until_s is not None]
        if self._ends_unused and self._until_s > 0:
            limits.append(self._until_s)
        return max(min(limits) - time.monotonic(), 0.0) if limits else None

    def _answer_all(self) -> None:
        while not self._ends:
            ready = [key.data for key, _ in self._selector.select(self._wait_s())]
            with short_turns:
                self._replace_lost()
                for own in () if self._ends else ready:
                    if own is self._socket:
                        self._accept()
                    elif own in self._connections:
                        self._serve(own)
                self._drop_overdue()
                self._replace_lost()  # before it waits for a number that the program may reuse
                self._end_if_unused()
        self._end_connections()

    def _replace_lost(self) -> None:
        """Drop connections that the program closed, and replace the socket if it closed that."""
        for own in [own for own in self._connections if not own.is_ours()]:
            self._drop(own)
        if self._ends or self._socket.is_ours():
            return
        self._selector.unregister(self._socket.socket)
        self._socket.close()
        try:
            self._open()
        except (OSError, ReachError) as error:
            notice(
                "`opscope attach` no longer works for this process, because the program closed "
                f"the socket: {error}"
            )
            self._end_from_inside()

    def _end_from_inside(self) -> None:
        global _server
        if _server is self:
            _server = None
        self._ends = True

    def _serve(self, own: OwnSocket) -> None:
        connection = self._connections[own]
        if connection.serve():
            self._selector.modify(own.socket, connection.waits_for, own)
        else:
            self._drop(own)

    def _drop_overdue(self) -> None:
        """Drop clients that do not finish a request or do not read the answer."""
        now_s = time.monotonic()
        for own, connection in list(self._connections.items()):
            if connection.until_s is not None and now_s >= connection.until_s:
                self._drop(own)

    def _drop(self, own: OwnSocket) -> None:
        self._selector.unregister(own.socket)
        self._connections.pop(own).close()

    def _accept(self) -> None:
        try:
            own = OwnSocket(self._socket.socket.accept()[0])
        except OSError:  # the client is gone, or too many files are open
            time.sleep(_RETRY_DELAY_S)
            return
        if not is_allowed_peer(peer_of(own.socket)):
            return own.close()
        if len(self._connections) >= _MOST_CONNECTIONS:
            why = (
                f"It already serves {_MOST_CONNECTIONS} connections. Try again when one has ended."
            )
            return refuse(own, why)
        try:
            from opscope.live.control.answers import ControlSession, Started
        except _NO_FILES:
            return own.close()
        if self._started is None:
            self._started = Started(self._listening_since_ns)
        self._connections[own] = Connection(own, ControlSession(self._started))
        self._until_s = 0.0
        self._selector.register(own.socket, selectors.EVENT_READ, own)

    def _end_connections(self) -> None:
        for own in list(self._connections):
            self._drop(own)
        if self._started is not None and self._started.recording is not None:
            self._started.recording.discard()


def _after_fork() -> None:
    global _server, _deciding
    server, _server, _deciding = _server, None, threading.RLock()
    if server is not None:
        server.forget()


os.register_at_fork(after_in_child=_after_fork)


def listen_if_possible() -> None:
    """:func:`opscope.listen`, with a notice instead of an error."""
    try:
        listen()
    except Exception as error:
        notice(f"OPSCOPE_CONTROL=1 has no effect: {error}")
