"""Who connects to a process that listens, whatever that sends, however slowly it reads."""

import json
import os
import socket
import threading

import pytest

from opscope.errors import ReachError
from opscope.live.control import answers
from opscope.live.control import server as server_module
from opscope.live.control.address import (
    Address,
    Peer,
    is_allowed_peer,
    is_process,
    peer_of,
    socket_path,
)
from opscope.live.control.answers import ControlSession
from opscope.live.control.client import ControlClient
from opscope.live.control.server import Server
from support.processes import wait_until

HELLO = b'{"opscope": 1, "do": "status"}\n'


@pytest.fixture
def listening(tmp_path, monkeypatch):
    """A server of this process; the path of its socket."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    server = Server()
    server.begin()
    yield server
    server.end()


def connected(server):
    asking = socket.socket(socket.AF_UNIX)
    asking.settimeout(20)
    asking.connect(str(server._path))
    return asking


def asked(server, line=HELLO):
    """What one who asks is answered; empty where the connection just ends."""
    with connected(server) as asking:
        asking.sendall(line)
        with asking.makefile() as lines:
            try:
                return lines.readline()
            except ConnectionResetError:
                return ""


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 60_000,
        b"9" * 70_000,
        b'{"opscope": 1, "do": ' + b"9" * 5_000 + b"}",
        b'{"opscope": 1, "do": "record", "recorded": [1]}',
        b'{"opscope": 1, "do": "\\ud800"}',
        b'{"opscope": 1e999, "do": {}}',
        b"\0\xff\xfe",
    ],
)
def test_no_message_ends_the_listening(listening, line):
    asked(listening, line + b"\n")
    assert "error" not in json.loads(asked(listening))


@pytest.mark.parametrize("error", [RecursionError, MemoryError, KeyError, OSError])
def test_no_error_of_one_connection_ends_the_listening(listening, monkeypatch, error):
    def fails(*_):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(ControlSession, "answer", fails)
        patched.setattr(ControlSession, "close", fails)
        assert asked(listening) == ""
    assert asked(listening)


def test_one_that_reads_nothing_holds_up_nobody(listening, monkeypatch):
    answer = ControlSession.status
    monkeypatch.setitem(
        answers._ANSWERS, "status", lambda *said: {**answer(*said), "much": "x" * (4 << 20)}
    )
    slow = [connected(listening) for _ in range(3)]
    for one in slow:
        one.sendall(HELLO * 5)
    assert len(asked(listening)) > 4 << 20
    with slow[0].makefile() as lines:  # and gets all of them when it reads
        assert [len(lines.readline()) > 4 << 20 for _ in range(5)] == [True] * 5
    for one in slow:
        one.close()


def test_a_request_that_does_not_go_on_is_dropped(listening, monkeypatch):
    monkeypatch.setattr("opscope.live.control.server.PATIENCE_S", 0.05)
    with connected(listening) as slow:
        slow.send(HELLO[:10])
        assert slow.recv(1) == b""
    assert asked(listening)


def test_only_so_many_connections_and_the_next_is_reported(listening):
    held = [connected(listening) for _ in range(server_module._MOST_CONNECTIONS)]
    for one in held:  # each is there
        one.sendall(HELLO)
        assert one.recv(1)
    with pytest.raises(ReachError, match="It already serves 16"):
        ControlClient(Address(os.getpid(), listening._path))
    held.pop().close()
    wait_until(lambda: len(listening._connections) < server_module._MOST_CONNECTIONS)
    ControlClient(Address(os.getpid(), listening._path)).close()
    for one in held:
        one.close()


def test_another_process_than_the_one_meant_is_not_asked(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    path = socket_path(os.getppid())  # as if this process were that one
    heard = []

    def answer_one():
        with socket.socket(socket.AF_UNIX) as false:
            false.bind(str(path))
            false.listen()
            bound.set()
            connection, _ = false.accept()
            with connection:
                heard.append(connection.recv(1000))

    bound = threading.Event()
    answering = threading.Thread(target=answer_one)
    answering.start()
    bound.wait(20)
    with pytest.raises(ReachError, match="The process that listens at"):
        ControlClient(Address(os.getppid(), path))
    answering.join(20)
    assert heard == [b""]  # and was told nothing


def test_its_own_user_and_root_may_ask_and_none_of_another_container_is_meant():
    one, other = socket.socketpair()
    with one, other:
        assert peer_of(one) == Peer(os.getpid(), os.getuid())
    assert peer_of(one) is None
    peers = (Peer(1, 0), Peer(1, os.getuid()), Peer(1, os.getuid() + 1), None)
    assert [is_allowed_peer(peer) for peer in peers] == [True, True, False, False]
    assert is_process(Peer(os.getpid(), 5), os.getpid())
    assert not is_process(Peer(0, os.getuid()), os.getpid())
    assert not is_process(None, os.getpid())


def test_one_that_asks_and_never_reads_is_dropped(listening, monkeypatch):
    monkeypatch.setattr("opscope.live.control.server.PATIENCE_S", 0.05)
    with connected(listening) as slow, pytest.raises(ConnectionError):
        while True:
            slow.send(HELLO)
    assert asked(listening)
