"""Requests of a server: what the typical and the slowest ones spent their time on."""

from opscope.analysis.requests import find_requests
from opscope.columns.schema import EventKind
from support.build_trace import build_trace, span

MARK = {"kind": EventKind.ANNOTATION}
NAME = "request: GET /x"


def test_no_request_is_none():
    assert find_requests(build_trace("aten::mm 0..10")) is None


def test_requests_without_tasks():
    found = find_requests(
        build_trace([span(NAME, 0, 10, **MARK), span("aten::mm", 2, 6), span(NAME, 20, 24, **MARK)])
    )
    assert found.count == 2
    assert found.slowest.total_ns == 10_000
    assert found.slowest.operators_ns == 4_000 and found.slowest.python_ns == 6_000
    assert found.slowest.waiting_ns == found.slowest.blocked_ns == 0
    assert "GET /x" in found.lines()[2]
