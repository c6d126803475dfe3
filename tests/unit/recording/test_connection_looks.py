"""At how many looks of the sampler a connection had something to send that was not sent yet."""

import socket
import struct
import subprocess
import sys
from contextlib import contextmanager
from threading import Thread

import pytest

from opscope import _native

SO_MAX_PACING_RATE = 47
MIB = 1 << 20

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no other kernel says it so")


@contextmanager
def connection():
    """Both ends of one."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as sender,
        server.accept()[0] as receiver,
    ):
        yield sender, receiver


def looks(meanwhile):
    """How often connections were looked at, and were behind, while a function ran and ran."""
    looked = behind = 0
    while looked < 5:
        number = _native.new_number()
        _native.begin_thread_samples(number)
        try:
            meanwhile()
        finally:
            *_, more, more_behind = _native.end_thread_samples(number)
        looked, behind = looked + more, behind + more_behind
    return looked, behind


def wait_a_little():
    """Two threads hand each other the turn, so that time passes."""
    for _ in range(200):
        thread = Thread(target=int)
        thread.start()
        thread.join()


def receive(receiver, size):
    while size:
        size -= len(receiver.recv(min(size, MIB)))


def test_one_that_takes_little_is_behind():
    with connection() as (sender, receiver):
        rate = struct.pack("Q", 4 * MIB)
        sender.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, rate)

        def send():
            thread = Thread(target=receive, args=(receiver, MIB))
            thread.start()
            sender.sendall(b"x" * MIB)
            thread.join()

        looked, behind = looks(send)
        assert behind > looked / 2


def test_one_that_takes_all_is_not():
    with connection() as (sender, receiver):

        def send():
            sender.sendall(b"x" * 1000)
            receive(receiver, 1000)
            wait_a_little()

        assert looks(send)[1] == 0


def test_one_whose_receiver_has_no_room_is_not():
    with connection() as (sender, _):
        sender.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                sender.send(b"x" * MIB)
        assert looks(wait_a_little)[1] == 0


LISTENS = """
import socket
from opscope import _native
with socket.create_server(("127.0.0.1", 0)):
    looked = 0
    while looked < 20:
        _native.begin_thread_samples(number := _native.new_number())
        sum(range(1_000_000))
        *_, more, _, connection_looks, _ = _native.end_thread_samples(number)
        looked += more
        assert connection_looks == 0
"""


def test_a_socket_that_listens_is_none():
    subprocess.run([sys.executable, "-c", LISTENS], check=True, timeout=300)
