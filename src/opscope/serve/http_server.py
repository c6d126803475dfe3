"""A small HTTP server with the same paths, on opscope's threads, for programs without a server."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Collection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from opscope.base.daemon_thread import OwnThread, short_turns
from opscope.base.private_files import OwnSocket
from opscope.errors import ReachError, UsageError
from opscope.serve.answers import Head, HttpAnswers, Reply, token_of
from opscope.serve.control import Control

_MOST_CONNECTIONS = 128
_REQUEST_S = 10.0
"""Time limit for one request to arrive."""
_POLL_S = 0.5
_LINGER_BYTES = 1 << 20
_running: set[HttpServer] = set()


class HttpServer:
    """Listens at one address; each connection gets one answer."""

    def __init__(self, answers: HttpAnswers, host: str, port: int) -> None:
        self.control, self.answers = answers.control, answers
        self._is_ending = False
        self._connections: dict[OwnSocket, float] = {}
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(128)
        except OSError as error:
            listener.close()
            raise ReachError(
                f"opscope cannot listen at {host}:{port}: {error.strerror or error}. Choose "
                "another port, or 0 for a free one."
            ) from error
        self.port: int = listener.getsockname()[1]
        listener.settimeout(_POLL_S)
        self._socket = OwnSocket(listener)
        self._thread = OwnThread(self._run, self._request_end)

    def start(self) -> None:
        """Start answering."""
        self._thread.start()
        _running.add(self)

    def stop(self) -> None:
        """Stop answering."""
        self._thread.request_end()
        self._thread.join(2 * _POLL_S)

    def _request_end(self) -> None:
        self._is_ending = True
        if self._socket.is_ours():
            with contextlib.suppress(OSError):
                self._socket.socket.shutdown(socket.SHUT_RDWR)  # which ends accept()

    def forget(self) -> None:
        """Close all sockets in a forked child, which must not keep the port open."""
        for own in (self._socket, *self._connections):
            own.close()

    def _run(self) -> None:
        while not self._is_ending and self._socket.is_ours():
            try:
                connection = OwnSocket(self._socket.socket.accept()[0])
            except OSError as error:
                self._end_overdue(time.monotonic())
                if not (self._is_ending or isinstance(error, TimeoutError)):  # too many files
                    time.sleep(_POLL_S)
                continue
            self._end_overdue(time.monotonic())
            if len(self._connections) >= _MOST_CONNECTIONS:
                _refuse(connection)
                continue
            self._connections[connection] = time.monotonic() + _REQUEST_S
            OwnThread(lambda one=connection: self._serve(one), lambda: None).start()  # type: ignore[misc]
        self._socket.close()
        _running.discard(self)

    def _end_overdue(self, now_s: float) -> None:
        for connection, until_s in list(self._connections.items()):
            if now_s >= until_s and connection.is_ours():
                with contextlib.suppress(OSError):
                    connection.socket.shutdown(socket.SHUT_RD)

    def _serve(self, connection: OwnSocket) -> None:
        try:
            connection.socket.settimeout(_REQUEST_S)
            with short_turns, contextlib.suppress(OSError, ValueError):
                _Handler(connection.socket, connection.socket.getpeername(), self)  # type: ignore[arg-type]
        finally:
            self._connections.pop(connection, None)
            connection.close()


def _forget_all() -> None:
    for server in list(_running):
        server.forget()
    _running.clear()


os.register_at_fork(after_in_child=_forget_all)


def listen(
    address: str = "127.0.0.1:0",
    output_root: str | os.PathLike[str] = "opscope-profiles",
    token: str | None = None,
    hosts: Collection[str] = (),
) -> HttpServer:
    """Serve the paths of :func:`opscope.serve.asgi` at an address of this machine.

    Args:
        address: host and port; port 0 chooses a free one. Other machines may send requests if the
            host is not a loopback address.
        output_root: as for the app.
        token: as for the app.
        hosts: further host names by which other machines may send requests.

    Raises:
        UsageError: the address is invalid.
        ReachError: the address cannot be used.
    """
    host, port = address_of(address)
    others = {*hosts, *(() if host in ("127.0.0.1", "::1", "localhost") else (host,))}
    server = HttpServer(
        HttpAnswers(Control(Path(output_root)), token_of(token), others), host, port
    )
    server.start()
    return server


def address_of(text: str) -> tuple[str, int]:
    """Host and port of ``127.0.0.1:8123``, ``[::1]:8123`` or ``8123``.

    Raises:
        UsageError: the text is not an address, or means all interfaces.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not (port.isascii() and port.isdecimal() and int(port) < 1 << 16):
        raise UsageError(f"{text!r} is not an address. Give host and port, such as 127.0.0.1:8123.")
    if host in ("0.0.0.0", "::"):
        raise UsageError(
            f"{text!r} means all interfaces of this machine. Give the address of one interface; "
            "requests must use this address."
        )
    return host, int(port)


def _refuse(connection: OwnSocket) -> None:
    body = b'{"error": "Too many requests at once. Try again."}'
    head = f"HTTP/1.0 429 Too Many Requests\r\nContent-Length: {len(body)}\r\nRetry-After: 1\r\n"
    with contextlib.suppress(OSError):
        connection.socket.settimeout(0)
        connection.socket.send(head.encode() + b"\r\n" + body)
        connection.socket.shutdown(socket.SHUT_WR)
    connection.close()


class _Handler(BaseHTTPRequestHandler):
    server: Any
    timeout = _REQUEST_S
    server_version, sys_version = "opscope", ""

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = do_PATCH = do_GET

    def _answer(self) -> None:
        answers: HttpAnswers = self.server.answers
        headers = {name.lower(): value for name, value in self.headers.items()}
        head = Head(self.command, self.path.partition("?")[0], headers, self.client_address[0])
        refusal = answers.refusal(head)
        if refusal is None and "transfer-encoding" in headers:
            refusal = Reply(411, {"error": "Send the body with Content-Length."})
        if refusal is not None:
            self._send(refusal)
            return self._linger()
        length = int(headers.get("content-length", "0"))
        body = self.rfile.read(length)
        if len(body) < length:
            return self._send(Reply(408, {"error": "The body did not arrive."}))
        self._send(answers.answer(head, body))

    def _send(self, reply: Reply) -> None:
        body = json.dumps(reply.body, default=str).encode()
        own = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        self.send_response(reply.status)
        for name, value in {**own, **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _linger(self) -> None:
        """Read some of a refused body: closing at once could discard the answer."""
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(_POLL_S)
        left_bytes = _LINGER_BYTES
        while left_bytes > 0 and (part := self.connection.recv(1 << 16)):
            left_bytes -= len(part)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send the parser's refusals as JSON, not as an HTML page."""
        self.command = getattr(self, "command", None) or "GET"
        self.request_version = "HTTP/1.0"
        self._send(Reply(code if code < 500 else 400, {"error": message or "bad request"}))

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing: standard error is the program's."""
