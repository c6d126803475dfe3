"""Requests of a server: what the typical and the slowest ones spent their time on."""

from opscope.analysis.account.find import find_account
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


def test_the_account_is_of_the_thread_that_serves_and_not_of_a_worker():
    loop = [span(NAME, 100 * i, 100 * i + 40, thread="loop", **MARK) for i in range(9)]
    work = [span("aten::mm", 10 * i, 10 * i + 9, thread="worker") for i in range(90)]
    spans = sorted([*loop, *work], key=lambda one: one.start)
    account = find_account(build_trace(spans), "all")
    assert "loop" in account.threads[account.main]
