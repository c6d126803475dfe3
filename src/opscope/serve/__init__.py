"""Control over HTTP of recordings in a server: an ASGI app, a server of its own, request marks."""

from __future__ import annotations

from opscope.serve.asgi import ProfilerApp, asgi
from opscope.serve.http_server import listen
from opscope.serve.mark_requests import MarkRequests

__all__ = ["MarkRequests", "ProfilerApp", "asgi", "listen"]
