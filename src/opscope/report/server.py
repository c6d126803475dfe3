"""Serves a page to a browser on this machine while the page is open.

The server listens on 127.0.0.1, and answers only GET requests whose path begins with a random token
and that :class:`Access` permits. The page keeps one request open; some seconds after that is
closed, the server ends.
"""

from __future__ import annotations

import json
import secrets
import shutil
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from opscope.base.http_access import Access
from opscope.errors import OpscopeError, UsageError
from opscope.report.live_page import LivePage

HOST = "127.0.0.1"

_PING_INTERVAL_S = 1.0
_RELOAD_S = 5.0
"""The server ends after this time without a page; reloading a page takes less."""

_LONGEST_LINE = 20_000


class PageServer:
    """A page at an address of this machine."""

    def __init__(self, page: LivePage, port: int = 0) -> None:
        """Listen; ``port`` 0: a free port.

        Raises:
            UsageError: the port cannot be used.
        """
        self._token = secrets.token_urlsafe(24)
        try:
            self._server = _Server((HOST, port), _Handler)
        except OSError as error:
            raise UsageError(
                f"Port {port} of {HOST} cannot be used: {error.strerror}. Choose another with "
                "--port, or omit --port."
            ) from None
        self._server.page, self._server.access = page, Access(self._token)

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        return int(self._server.server_address[1])

    @property
    def address(self) -> str:
        """URL to open in a browser."""
        return f"http://{HOST}:{self.port}/{self._token}/"

    def serve(self) -> None:
        """Answer requests until the page was open and is closed, or :meth:`close` is called."""
        with self._server as server:
            while not server.is_ending:
                server.handle_request()
                closed_s = server.closed_since_s
                if closed_s is not None and time.monotonic() - closed_s > _RELOAD_S:
                    server.is_ending = True

    def close(self) -> None:
        """End :meth:`serve`; from another thread or a signal handler."""
        self._server.is_ending = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    timeout = 0.1  # of handle_request()
    page: LivePage
    access: Access

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.is_ending = False
        self.closed_since_s: float | None = None  # None: a page is open, or none has been yet
        self.is_computing = threading.Lock()  # one answer at a time, which limits memory
        self._open, self._changes = 0, threading.Lock()

    def opened(self, change: int) -> None:
        """Count open pages; ``change`` is 1 or -1."""
        with self._changes:
            self._open += change
            self.closed_since_s = None if self._open else time.monotonic()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: the page may be closed while the server answers."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 30  # each connection has one request: the body of a refused one is never read
    server_version, sys_version = "opscope", ""

    _HEADERS: ClassVar = {
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Cross-Origin-Resource-Policy": "same-origin",
    }

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        name = self._name_in(address.path)
        if name is None:
            return self._send(403, "text/plain", b"")
        if name == "alive":
            return self._keep_alive()
        if name == "":
            return self._send(200, "text/html; charset=utf-8", self._page())
        try:
            query = dict(parse_qsl(address.query, keep_blank_values=True, max_num_fields=20))
            with self.server.is_computing:
                answer = self.server.page.answer(name, query)
        except OpscopeError as error:
            return self._send_json(400, {"error": str(error)})
        except (ValueError, MemoryError) as error:
            return self._send_json(400, {"error": f"This could not be answered: {error}"})
        if answer is None:
            return self._send(403, "text/plain", b"")
        self._send_json(200, answer)

    def _name_in(self, path: str) -> str | None:
        """Name of the requested answer; None if the request is refused."""
        parts = path.split("/")
        if len(parts) != 3 or len(self.path) > _LONGEST_LINE:
            return None
        refused = self.server.access.refusal(parts[1], self.headers, self.client_address[0])
        return parts[2] if refused is None else None

    def _page(self) -> bytes:
        with self.server.is_computing:
            return self.server.page.html().encode("utf-8")

    def _keep_alive(self) -> None:
        """Keep the request open until the page is closed, when writing to it fails."""
        self._begin(200, "text/event-stream", None)
        self.server.opened(+1)
        try:
            while not self.server.is_ending:
                self.wfile.write(b": \n\n")
                self.wfile.flush()
                time.sleep(_PING_INTERVAL_S)
        except OSError:
            pass
        finally:
            self.server.opened(-1)
            self.close_connection = True

    def _send_json(self, status: int, answer: Any) -> None:
        text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
        self._send(status, "application/json", text.encode("utf-8", "replace"))

    def _send(self, status: int, kind: str, content: bytes) -> None:
        self._begin(status, kind, len(content))
        self.wfile.write(content)

    def _begin(self, status: int, kind: str, length: int | None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in self._HEADERS.items():
            self.send_header(name, value)
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer other methods and damaged requests as all refused ones."""
        self._send(403, "text/plain", b"")

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing."""


PERFETTO_PORT = 9001
"""The only port of this machine that Perfetto's page may read from."""

_PERFETTO = "https://ui.perfetto.dev"


class FileServer:
    """Serves one file once, to Perfetto's page in a browser of this machine."""

    def __init__(self, file: Path) -> None:
        """Listen.

        Raises:
            UsageError: the port cannot be used.
        """
        self._name = f"{secrets.token_urlsafe(24)}.pftrace"
        access, size = Access(self._name, page=_PERFETTO), file.stat().st_size

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if access.refusal(self.path[1:], self.headers, self.client_address[0]):
                    self.send_error(403)
                    return
                self.send_response(200)
                self.send_header("Access-Control-Allow-Origin", _PERFETTO)
                self.send_header("Content-Type", "application/octet-stream")
                self.send_header("Content-Length", str(size))
                self.end_headers()
                with file.open("rb") as opened:
                    shutil.copyfileobj(opened, self.wfile)
                self.server.is_read = True  # type: ignore[attr-defined]

            def log_message(self, format: str, *arguments: Any) -> None:
                """Print nothing."""

        try:
            self._server = HTTPServer((HOST, PERFETTO_PORT), Handler)
        except OSError as error:
            raise UsageError(
                f"Perfetto can read only from port {PERFETTO_PORT} of {HOST}, and opscope cannot "
                f"use it: {error.strerror}. End the program that listens there."
            ) from None

    port = PERFETTO_PORT

    @property
    def address(self) -> str:
        """URL to open in a browser."""
        return f"{_PERFETTO}/#!/?url=http://{HOST}:{self.port}/{self._name}"

    def serve(self) -> None:
        """Answer requests until the file was read."""
        with self._server as server:
            while not getattr(server, "is_read", False):
                server.handle_request()


def tunnel(port: int) -> str:
    """Command that makes the port reachable from another machine."""
    return f"ssh -L {port}:{HOST}:{port} {socket.gethostname()}"
