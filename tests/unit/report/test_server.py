"""The server of a page: who it answers, what it answers, when it ends."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from opscope.api.trace import Trace
from opscope.errors import UsageError
from opscope.report import server as server_module
from opscope.report.live_page import LivePage, windowed_page
from opscope.report.server import FileServer, PageServer
from opscope.report.windows import Windows
from opscope.storage.long_trace import LongTrace
from opscope.storage.sql_on_disk import query_long
from opscope.timeline.period import Which
from support.build_trace import build_trace, span
from support.read_report import read_report


@pytest.fixture(scope="module")
def trace() -> Trace:
    spans = [span("step", 0, 10_000)]
    spans += [span(f"aten::op{i % 3}", 10 * i + 1, 10 * i + 6) for i in range(900)]
    return build_trace(spans)


@pytest.fixture
def served(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[PageServer, threading.Thread]]:
    monkeypatch.setattr(server_module, "_RELOAD_S", 0.2)
    monkeypatch.setattr(server_module, "_PING_INTERVAL_S", 0.05)
    trace.save(tmp_path / "trace")
    long = LongTrace.at(tmp_path / "trace")
    windows = Windows(long)
    html, start_ns = windowed_page(windows, trace, long.rows, "", Which.ALL)
    page = LivePage(lambda: html, lambda text: query_long(long, text, True), windows, start_ns)
    server = PageServer(page)
    thread = threading.Thread(target=server.serve)
    thread.start()
    yield server, thread
    if thread.is_alive():
        server.close()
    thread.join(10)
    assert not thread.is_alive()


def get(
    server: PageServer, name: str, query: dict[str, str] | None = None, **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    path = urlsplit(server.address).path + name + (f"?{urlencode(query)}" if query else "")
    return get_path(server, path, **headers)


def get_path(
    server: PageServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=named)
        response = connection.getresponse()
        return response.status, response.read(), dict(response.headers)
    finally:
        connection.close()


def answer(server: PageServer, name: str, **query: str) -> Any:
    status, content, _ = get(server, name, query)
    assert status == 200, content
    return json.loads(content)


def test_the_page_is_that_of_the_trace_also_through_a_tunnel_from_another_port(served: Any) -> None:
    server, _ = served
    status, content, headers = get(server, "")
    assert status == 200
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    page = read_report(content.decode())
    assert page.data["run"]["counts"]["events"] == 901
    assert page.data["spans"]["window"]["to"] == 10_000_000
    assert "connect-src 'self'" in content.decode()
    at = {"Host": "localhost:9", "Origin": "http://localhost:9"}
    assert get(server, "", **at)[0] == 200
    assert get(server, "", **{**at, "Origin": "http://localhost:10"})[0] == 403
    with pytest.raises(UsageError, match="cannot be used"):
        PageServer(server._server.page, server.port)
    assert server._server.server_address[0] == "127.0.0.1"
    for method in ("POST", "DELETE", "<script>"):
        refused = get_path(server, urlsplit(server.address).path, method)
        assert refused[:2] == (403, b"") and refused[2]["X-Content-Type-Options"] == "nosniff"


def test_windows_searches_and_queries_are_answered(served: Any) -> None:
    server, _ = served
    found = answer(server, "spans", **{"from": "0", "to": "1000000"})
    assert found["spans"]["window"]["least"] == 0
    assert next(c["count"] for c in found["columns"] if c["name"] == "start") == 101
    found = answer(server, "find", text="op1", after="5000000")
    assert (found["count"], found["next"]) == (300, [5_021_000, 5_026_000])
    back = answer(server, "find", text="op1", after="5000000", backwards="1")
    assert back["next"] == [4_991_000, 4_996_000]
    exact = answer(server, "find", text="op1", exact="1", after="0")
    assert (exact["count"], exact["next"]) == (0, None)
    found = answer(server, "sql", query="select count(*) as n, 'a' || chr(27) from events")
    assert (found["columns"][0], found["rows"][0][0]) == ("n", "901")
    assert "\x1b" not in found["rows"][0][1]
    many = answer(server, "sql", query="select * from range(5000)")
    assert (len(many["rows"]), many["isMore"]) == (1000, True)


def test_what_is_not_the_page_and_another_site_get_nothing(served: Any) -> None:
    server, _ = served
    token = urlsplit(server.address).path.strip("/")
    paths = ("/", "/wrong/", "/wrong/spans?from=0&to=1", "/{token}", "/{token}/../../etc/passwd",
             "/{token}/%2e%2e/etc/passwd", "/{token}/events.parquet", "/{token}//",
             "/{token}/spans/", "/" + "x" * 30_000)  # fmt: skip
    for path in paths:
        status, content, _ = get_path(server, path.replace("{token}", token))
        assert (status, content) == (403, b""), path
    for headers in (
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
    ):
        status, content, _ = get(server, "", **headers)
        assert (status, content) == (403, b""), headers
    inside = f"GET /{token}/ HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = f"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(inside)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        connection.sendall((head + inside).encode())
        assert connection.makefile("rb").read().count(b"HTTP/1.") == 1  # a body is no request


def test_what_is_wrong_is_reported(served: Any) -> None:
    server, _ = served
    for name, query in (
        ("spans", {}),
        ("spans", {"from": "x", "to": "1"}),
        ("spans", {"from": "5", "to": "1"}),
        ("spans", {"from": "0", "to": "9" * 40}),
        ("find", {"text": "a"}),
        ("sql", {}),
        ("sql", {str(number): "" for number in range(30)}),
        ("sql", {"query": "select * from read_csv('/etc/passwd')"}),
        ("sql", {"query": "copy events to '/tmp/x.csv'"}),
        ("sql", {"query": "select"}),
    ):
        status, content, _ = get(server, name, query)
        assert status == 400 and json.loads(content)["error"], (name, query)
    assert get(server, "")[0] == 200  # as before


def test_it_ends_when_the_page_is_closed(served: Any) -> None:
    server, thread = served
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("GET", urlsplit(server.address).path + "alive")
    response = connection.getresponse()
    assert response.status == 200
    thread.join(1)
    assert thread.is_alive()
    response.close()
    connection.close()
    thread.join(20)
    assert not thread.is_alive()


def test_perfetto_alone_reads_the_file_once(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(server_module, "PERFETTO_PORT", 0)
    file = tmp_path / "a.pftrace"
    file.write_bytes(b"trace")
    server = FileServer(file)
    thread = threading.Thread(target=server.serve)
    thread.start()
    port = server._server.server_address[1]
    path = "/" + server.address.rsplit("/", 1)[1]
    for origin, wanted in (("https://evil.example", 403), ("https://ui.perfetto.dev", 200)):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", path, headers={"Origin": origin})
        response = connection.getresponse()
        assert response.status == wanted
        content = response.read()
        connection.close()
    assert content == b"trace"
    thread.join(10)
    assert not thread.is_alive()
