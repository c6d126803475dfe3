"""Requests over HTTP as tests send them, well-formed or not."""

from __future__ import annotations

import http.client
import json
import socket
import time

TOKEN = "a-token-of-tests"
ALLOWED = {"Authorization": f"Bearer {TOKEN}"}


def ask(port, method, path, body=None, headers=ALLOWED):
    """Status and JSON of the answer; ``body`` is bytes, or what becomes JSON."""
    sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, sent, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")
    finally:
        connection.close()


def send(port, data, wait_s=20.0):
    """The status of the answer to these bytes; None without one."""
    with socket.create_connection(("127.0.0.1", port), timeout=wait_s) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        except OSError:  # it has answered before it had all of it
            pass
        answer = b""
        try:
            while part := connection.recv(1 << 16):
                answer += part
        except OSError:
            pass
    words = answer.split(None, 2)
    return int(words[1]) if len(words) > 1 else None


def verdict_when_written(get, patience_s=120.0):
    """The answer of ``GET /verdict`` once another process has made it."""
    until_s = time.monotonic() + patience_s
    while (answer := get())[0] == 202:
        assert time.monotonic() < until_s, "no verdict"
        time.sleep(0.1)
    return answer
