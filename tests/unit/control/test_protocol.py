"""Lines over a socket, and files that go along."""

import os
import socket

import pytest

from opscope.control.protocol import VERSION, ReceivedLines, send


@pytest.fixture
def pair():
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_what_is_sent_arrives_however_it_is_cut(pair):
    one, other = pair
    line = ReceivedLines(other)
    send(one, {"do": "status"})
    send(one, {"text": "ä" * 10})
    assert line.next() is None
    line.read_some()
    assert line.next() == {"opscope": VERSION, "do": "status"}
    assert line.next() == {"opscope": VERSION, "text": "ä" * 10}
    assert line.next() is None


def test_a_file_goes_along(pair, tmp_path):
    one, other = pair
    line = ReceivedLines(other)
    with open(tmp_path / "file", "wb") as file:
        send(one, {"do": "stop"}, file.fileno())
    line.read_some()
    (received,) = line.files
    os.write(received.descriptor, b"written by the other side")
    received.close()
    assert (tmp_path / "file").read_bytes() == b"written by the other side"


def test_a_file_that_nobody_took_is_closed_in_the_end(pair, tmp_path):
    one, other = pair
    line = ReceivedLines(other)
    with open(tmp_path / "file", "wb") as file:
        socket.send_fds(one, [b"half a line"], [file.fileno(), file.fileno()])
    line.read_some()
    received = [file.descriptor for file in line.files]
    line.close()
    for descriptor in received:
        with pytest.raises(OSError):
            os.fstat(descriptor)
    assert len(received) == 2 and line.files == []


@pytest.mark.parametrize("wrong", [b"no JSON\n", b"[1]\n", b"\xff\xfe\n"])
def test_what_is_no_object_is_refused(pair, wrong):
    one, other = pair
    line = ReceivedLines(other)
    one.sendall(wrong)
    line.read_some()
    with pytest.raises(ValueError):
        line.next()


def test_the_end_is_told(pair):
    one, other = pair
    one.close()
    assert not ReceivedLines(other).read_some()
