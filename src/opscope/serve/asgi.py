"""An ASGI app that controls recordings of its server, and a middleware that marks requests."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import os
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from pathlib import Path
from typing import Any, TypeVar

from opscope.base.daemon_thread import OwnThread, short_turns
from opscope.columns.names import REQUEST_PREFIX
from opscope.serve.answers import PATHS, Head, HttpAnswers, Reply, token_of
from opscope.serve.control import Control
from opscope.torch_api.annotate import awaited_within, record_function

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_Value = TypeVar("_Value")
_BODY_S = 10.0
"""Time limit for a body to arrive."""


class ProfilerApp:
    """Result of :func:`asgi`. The server may call ``control.step_ended()`` after each step."""

    def __init__(self, answers: HttpAnswers) -> None:
        self._answers = answers
        self.control = answers.control

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request; other connections are refused."""
        if scope["type"] == "lifespan":
            return await self._live(receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1003})
        await _send(await self._reply_to(_head_of(scope), receive), send)

    async def until_shutdown(self, receive: Receive) -> MutableMapping[str, Any]:
        """Receive the next lifespan message; if it is the shutdown, end the recording.

        A signal may end the server right after the shutdown, and then the recording would be lost.
        """
        message = await receive()
        if message["type"] == "lifespan.shutdown":
            await in_own_thread(self.control.finish)
        return message

    async def _live(self, receive: Receive, send: Send) -> None:
        """Handle the lifespan, which the app receives only if it is not mounted in another app."""
        while (await self.until_shutdown(receive))["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})

    async def _reply_to(self, head: Head, receive: Receive) -> Reply:
        refusal = self._answers.refusal(head)
        if refusal is not None:
            return refusal
        try:
            body = await asyncio.wait_for(self._body(receive), _BODY_S)
        except asyncio.TimeoutError:
            return Reply(408, {"error": f"The body did not arrive within {_BODY_S:.0f} s."})
        if isinstance(body, Reply):
            return body
        return await in_own_thread(functools.partial(self._answers.answer, head, body))

    async def _body(self, receive: Receive) -> bytes | Reply:
        body: bytes = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            refusal = self._answers.too_long(len(body))
            if refusal is not None:
                return refusal
            if not message.get("more_body"):
                return body


def asgi(
    output_root: str | os.PathLike[str] = "opscope-profiles",
    token: str | None = None,
    hosts: Collection[str] = (),
) -> ProfilerApp:
    """An app to mount: ``app.mount("/opscope", opscope.serve.asgi())`` in Starlette or FastAPI.

    Its paths are those of serving engines: ``POST /start_profile``, ``POST /stop_profile``, ``GET
    /profile_status``, ``POST /dump_profile``, ``GET /verdict``.

    Args:
        output_root: folder of all recordings; ``output_dir`` of a request is relative to it.
        token: the token that requests must send; None for ``OPSCOPE_HTTP_TOKEN`` or, without that,
            a new one, which is printed.
        hosts: names by which other machines address the server. Without any, only this machine
            may send requests.

    Raises:
        UsageError: the token is invalid.
    """
    return ProfilerApp(HttpAnswers(Control(Path(output_root)), token_of(token), hosts))


async def in_own_thread(function: Callable[[], _Value]) -> _Value:
    """Call a function on a new opscope thread, which blocks neither event loop nor thread pool."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Value] = loop.create_future()

    def run() -> None:
        try:
            with short_turns:
                settle = functools.partial(_settle, future, function(), None)
        except Exception as error:
            settle = functools.partial(_settle, future, None, error)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle)

    OwnThread(run, lambda: None).start()
    return await future


def _settle(future: asyncio.Future[Any], value: Any, error: Exception | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


def _head_of(scope: Scope) -> Head:
    """Head of a request, whose ``path`` begins with ``root_path`` if the app is mounted."""
    path, mount = scope["path"], scope.get("root_path", "")
    if mount and path.startswith(mount + "/"):
        path = path[len(mount) :]
    headers = {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
    }
    client = scope.get("client")
    return Head(scope["method"], path, headers, client[0] if client else "")


async def _send(reply: Reply, send: Send) -> None:
    body = json.dumps(reply.body, default=str).encode()
    own = {"content-type": "application/json", "content-length": str(len(body))}
    headers = [
        (name.lower().encode(), value.encode()) for name, value in {**own, **reply.headers}.items()
    ]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


_MOST_NAME = 100
App = Callable[[Scope, Receive, Send], Any]


class MarkRequests:
    """Middleware that records requests: ``app.add_middleware(opscope.serve.MarkRequests)``.

    For Starlette and FastAPI. Each request becomes a span ``request: METHOD /path`` from its
    arrival to the end of its answer, including awaits. The span's arguments are the request's id
    (``x-request-id``, else a number) and the length of its body. It costs about 1 µs without a
    recording.
    """

    def __init__(
        self,
        app: App,
        profiler: ProfilerApp | None = None,
        name: Callable[[Scope], str] | None = None,
    ) -> None:
        """Wrap an ASGI app.

        Args:
            app: the app.
            profiler: result of :func:`opscope.serve.asgi`; its ``num_steps`` then counts requests.
            name: returns the name of a request from its scope, for paths with numbers.
        """
        self._app, self._name = app, name or _name_of
        self._profiler = profiler
        self._numbers = itertools.count(1)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Any:
        """Run the app; ``http`` requests become spans, except those that control recordings."""
        if scope["type"] == "lifespan" and self._profiler is not None:
            receive = functools.partial(self._profiler.until_shutdown, receive)
        answer = self._app(scope, receive, send)
        if scope["type"] != "http" or scope["path"].endswith(PATHS):
            return answer
        headers = dict(scope["headers"])
        number = headers.get(b"x-request-id", b"").decode("latin-1")[:_MOST_NAME]
        length = headers.get(b"content-length", b"0").decode("latin-1")[:20]
        about = f"id={number or next(self._numbers)} length={length}"
        span = record_function(REQUEST_PREFIX + self._name(scope), about)
        return awaited_within(span, answer, self._step_ended)

    def _step_ended(self) -> None:
        if self._profiler is not None:
            self._profiler.control.step_ended()


def _name_of(scope: Scope) -> str:
    return f"{scope['method']} {scope['path']}"[:_MOST_NAME]
