"""Marked requests of an event loop: what they waited for, and which handler blocks the loop."""

import asyncio
import time
from dataclasses import astuple

import pytest
import torch

import opscope
from opscope.analysis.requests import find_requests
from opscope.serve import MarkRequests


def pause():
    time.sleep(0.03)


async def app(scope, receive, send):
    torch.ones(8, 8).mm(torch.ones(8, 8))
    if scope["path"] == "/block":
        pause()  # blocks the loop
    elif scope["path"] == "/wait":
        await asyncio.sleep(0.02)
    elif scope["path"] == "/raise":
        raise ValueError("of the handler")
    await asyncio.sleep(0)


def serve(*paths):
    """The trace of these requests, all at once."""
    marked = MarkRequests(app)

    async def main():
        scopes = [{"type": "http", "method": "GET", "path": path, "headers": []} for path in paths]
        tasks = [asyncio.ensure_future(marked(scope, None, None)) for scope in scopes]
        await asyncio.gather(*tasks, return_exceptions=True)

    with opscope.profile(with_asyncio=True, with_own_functions=True, record_shapes=True) as prof:
        asyncio.run(main())
    return prof.trace


@pytest.mark.parametrize("split", ["typical", "slowest"])
def test_parts_sum_to_the_whole(split):
    found = getattr(find_requests(serve(*["/a", "/wait"] * 5, "/block")), split)
    total, *parts = astuple(found)
    assert all(part >= 0 for part in parts)
    assert abs(sum(parts) - total) <= 5  # each is rounded


def test_a_blocked_loop():
    found = find_requests(serve(*["/wait"] * 5, *["/block"] * 3))
    # All that wait are woken while the others block.
    assert found.typical.blocked_ns > found.typical.total_ns // 3
    assert "event loop blocked" in str(found.typical)


def test_the_handler_that_blocks_is_named_with_its_line():
    verdict = serve(*["/block"] * 4, *["/a"] * 4).verdict()
    assert verdict.evidence == ("event-loop-blocked",)
    assert verdict.place.function == "app" and verdict.line.startswith("pause()"), verdict


def test_other_kinds_of_connection_pass():
    passed = []

    async def inner(scope, receive, send):
        passed.append(scope["type"])

    asyncio.run(MarkRequests(inner)({"type": "lifespan"}, None, None))
    assert passed == ["lifespan"]


def test_an_id_of_the_request_is_kept():
    marked = MarkRequests(app, name=lambda scope: "named")

    async def main():
        headers = [(b"x-request-id", b"abc\xff"), (b"content-length", b"5")]
        scope = {"type": "http", "method": "GET", "path": "/1", "headers": headers}
        await asyncio.ensure_future(marked(scope, None, None))

    with opscope.profile(record_shapes=True) as prof:
        asyncio.run(main())
    names = [prof.trace.event_name(event) for event in range(len(prof.trace.events))]
    assert names.count("request: named") == 1
    texts = [prof.trace.names[value] for value in prof.trace.table("scalars")["value"]]
    assert "id=abcÿ length=5" in texts
