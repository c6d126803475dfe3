"""Lines over a socket, and files that go along."""

import os
import socket

import pytest

from opscope.live.control.protocol import VERSION, ReceivedLines, send


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


@pytest.mark.parametrize("sent", [b"[" * 20 + b"\n", b'{"a": ' * 20 + b"\n"])
def test_a_limit_of_brackets_is_kept_before_anything_is_parsed(pair, sent):
    one, other = pair
    one.sendall(sent)
    line = ReceivedLines(other, most_brackets=10)
    line.read_some()
    with pytest.raises(ValueError, match="too many brackets"):
        line.next()


def test_a_line_that_is_too_long_is_refused_before_it_ends(pair):
    one, other = pair
    one.sendall(b"x" * 1001)
    with pytest.raises(ValueError, match="too long"):
        ReceivedLines(other, most_bytes=1000).read_some()


def test_more_files_than_anything_takes_are_refused_and_closed(pair):
    one, other = pair
    line = ReceivedLines(other)
    with open(os.devnull, "rb") as file:
        for _ in range(2):
            socket.send_fds(one, [b"part"], [file.fileno()] * 3)
    line.read_some()
    with pytest.raises(ValueError, match="too many files"):
        line.read_some()
    line.close()
    assert line.files == []
