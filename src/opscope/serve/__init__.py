"""Recordings of a server, controlled over HTTP: an ASGI app, a separate server, request spans."""

from __future__ import annotations

from opscope.serve.asgi import MarkRequests, ProfilerApp, asgi
from opscope.serve.http_server import listen

__all__ = ["MarkRequests", "ProfilerApp", "asgi", "listen"]
