"""An ASGI middleware that makes each request a span."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from opscope.columns.names import REQUEST_PREFIX
from opscope.serve.answers import PATHS
from opscope.serve.asgi import ProfilerApp, Receive, Scope, Send
from opscope.torch_api.annotate import awaited_within, record_function

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
