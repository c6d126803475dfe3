"""What the kernel counts of the connections of this process."""

import socket
import struct
import sys
from contextlib import contextmanager
from threading import Thread

import pytest

from opscope.recording.connections import Connections, read_connections

SO_MAX_PACING_RATE = 47
MIB = 1 << 20

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="another kernel counts otherwise")


@contextmanager
def connection(bytes_per_s=None):
    """A function that sends so many bytes and returns once they have arrived."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as sender,
        server.accept()[0] as receiver,
    ):
        if bytes_per_s is not None:
            rate = struct.pack("Q", bytes_per_s)
            sender.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, rate)

        def receive(size):
            while size:
                size -= len(receiver.recv(min(size, MIB)))

        def send(size):
            thread = Thread(target=receive, args=(size,))
            thread.start()
            sender.sendall(b"x" * size)
            thread.join()

        yield send


def test_a_connection_that_takes_little_has_something_to_send_for_as_long_as_that_takes():
    with connection(bytes_per_s=20 * MIB) as send:
        counted = Connections()
        counted.note()
        send(4 * MIB)
        sent = counted.note()
    assert sent.arrived_bytes == pytest.approx(4 * MIB, rel=0.1)
    # At 20 MiB/s 4 MiB take 0.2 s; the kernel lets the first ones through at once.
    assert sent.sending_ns > 0.1e9


def test_what_was_sent_before_the_first_look_is_not_counted():
    with connection() as send:
        send(3 * MIB)
        counted = Connections()
        assert counted.note() is None
        send(MIB)
        assert counted.note().arrived_bytes == pytest.approx(MIB, rel=0.1)


def test_what_a_connection_sent_is_kept_when_it_is_gone():
    counted = Connections()
    with connection() as send:
        counted.note()
        send(2 * MIB)
        before = counted.note()
    assert counted.note() == before


def test_connections_that_carry_little_are_left_out():
    with connection() as send, connection(bytes_per_s=100_000) as send_little:
        counted = Connections()
        counted.note()
        send(4 * MIB)
        send_little(50_000)
        assert counted.note().arrived_bytes == pytest.approx(4 * MIB, rel=0.01)


def test_what_is_no_connection_is_passed_over(tmp_path):
    before = set(read_connections())
    with (
        open(tmp_path / "file", "w"),
        socket.socketpair()[0],
        socket.socket(type=socket.SOCK_DGRAM),
    ):
        assert set(read_connections()) - before == set()
