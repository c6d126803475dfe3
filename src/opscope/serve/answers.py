"""Answers to HTTP requests: permission, paths, and the status of each error.

Both servers use it; it depends on neither sockets nor ASGI.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from opscope.base.http_access import Access
from opscope.base.notice import notice
from opscope.errors import LifecycleError, OpscopeError, ReachError, UsageError
from opscope.serve.control import Control, TakenError
from opscope.serve.profile_request import ProfileRequest, object_of

MOST_BYTES = 64 << 10
"""Largest body of a request."""
TOKEN = "OPSCOPE_HTTP_TOKEN"
_MOST_REASON = 200


@dataclass(frozen=True)
class Head:
    """A request without its body; ``headers`` by lower-case name, ``client`` is an address."""

    method: str
    path: str
    headers: Mapping[str, str]
    client: str


@dataclass(frozen=True)
class Reply:
    """A JSON answer."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


def token_of(given: str | None) -> str:
    """The given token, else that of the environment, else a new one, which is printed.

    Raises:
        UsageError: the token is empty or not valid in a header.
    """
    if given is None:
        given = os.environ.get(TOKEN)
    if given is None:
        given = secrets.token_urlsafe(24)
        notice(f"profiling over HTTP needs this header: Authorization: Bearer {given}")
    if not given or not given.isascii() or not given.isprintable():
        raise UsageError(
            "The token is empty or has characters that a header cannot contain. Pass token=, or "
            f"set {TOKEN}, to a long random text; without either, opscope prints a new token."
        )
    return given


class HttpAnswers:
    """Checks and answers requests."""

    def __init__(self, control: Control, token: str, hosts: Collection[str]) -> None:
        """``token`` and ``hosts``: see :class:`Access`."""
        self.control, self._access = control, Access(token, hosts)

    def refusal(self, head: Head) -> Reply | None:
        """Refusal of a request, before its body is read; None: accepted."""
        kind, _, token = head.headers.get("authorization", "").partition(" ")
        given = token.strip() if kind.lower() == "bearer" else ""
        if (refused := self._access.refusal(given, head.headers, head.client)) is not None:
            status, why = refused
            headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
            return Reply(status, {"error": why}, headers)
        methods = {method for method, path in _ANSWERS if path == head.path}
        if not methods:
            paths = ", ".join(f"{method} {path}" for method, path in _ANSWERS)
            return _error(404, f"There is no such path. There are: {paths}.")
        if head.method not in methods:
            allow = ", ".join(sorted(methods))
            return Reply(405, {"error": f"Use {allow}."}, {"Allow": allow})
        length = head.headers.get("content-length", "0")
        if not (length.isascii() and length.isdecimal()):
            return _error(400, "Content-Length is not a number.")
        return self.too_long(int(length[:20]))

    def too_long(self, count: int) -> Reply | None:
        """Refusal of a body of ``count`` bytes; None: accepted."""
        if count <= MOST_BYTES:
            return None
        return _error(413, f"The body is larger than {MOST_BYTES >> 10} KiB.")

    def answer(self, head: Head, body: bytes) -> Reply:
        """Execute an accepted request; errors become replies."""
        try:
            return _ANSWERS[head.method, head.path](self, object_of(body), head.client)
        except TakenError as error:
            return Reply(409, {"error": str(error), "recording": error.who})
        except UsageError as error:
            return _error(400, str(error))
        except (LifecycleError, ReachError) as error:
            return _error(409, str(error))
        except (OpscopeError, OSError) as error:
            return _error(500, str(error))
        except Exception as error:  # an opscope bug must not reach the server's app
            return _error(500, f"{type(error).__name__}: {error}")

    def _start(self, body: dict[str, Any], client: str) -> Reply:
        who = self.control.start(ProfileRequest.of(body), client)
        return Reply(200, {"status": "started", **who})

    def _stop(self, body: dict[str, Any], client: str) -> Reply:
        _no_fields(body)
        return Reply(200, {"status": "stopped", **self.control.stop()})

    def _status(self, body: dict[str, Any], client: str) -> Reply:
        return Reply(200, self.control.status())

    def _verdict(self, body: dict[str, Any], client: str) -> Reply:
        if self.control.is_being_written:
            return Reply(202, {"status": "being written"}, {"Retry-After": "1"})
        if waits := self.control.awaits_step:
            return _error(404, f"There is no recording yet. {waits}.")
        if not self.control.has_recorded:
            return _error(404, "There is no recording yet. Start with POST /start_profile.")
        return Reply(200, self.control.verdict())

    def _dump(self, body: dict[str, Any], client: str) -> Reply:
        reason = body.pop("reason", "")
        _no_fields(body)
        if not isinstance(reason, str) or len(reason) > _MOST_REASON:
            raise UsageError(f"reason has to be a text of at most {_MOST_REASON} characters.")
        flight = sys.modules.get("opscope.live.flight.recorder")
        recorders = [] if flight is None else flight.running_recorders()
        if not recorders:
            raise LifecycleError(
                "This process has no flight recorder. Use `opscope run --flight-recorder 30s` "
                "or opscope.flight_recorder."
            )
        return Reply(200, {"status": "dumping", "trace": recorders[0].dump(reason).name})


_ANSWERS: dict[tuple[str, str], Callable[[HttpAnswers, dict[str, Any], str], Reply]] = {
    ("POST", "/start_profile"): HttpAnswers._start,
    ("POST", "/stop_profile"): HttpAnswers._stop,
    ("GET", "/profile_status"): HttpAnswers._status,
    ("POST", "/dump_profile"): HttpAnswers._dump,
    ("GET", "/verdict"): HttpAnswers._verdict,
}
PATHS = tuple(sorted({path for _, path in _ANSWERS}))


def _error(status: int, text: str) -> Reply:
    return Reply(status, {"error": text})


def _no_fields(body: Mapping[str, Any]) -> None:
    if body:
        raise UsageError("This path takes no such fields. Send no body.")
