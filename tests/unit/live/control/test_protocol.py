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


def test_a_file_that_no_process_took_is_closed_in_the_end(pair, tmp_path):
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


@pytest.mark.parametrize(
    ("sent", "limits", "said"),
    [
        (b"no JSON\n", {}, None),
        (b"[1]\n", {}, None),
        (b"\xff\xfe\n", {}, None),
        (b"[" * 20 + b"\n", {"most_brackets": 10}, "too many brackets"),
        (b'{"a": ' * 20 + b"\n", {"most_brackets": 10}, "too many brackets"),
        (b"x" * 1001, {"most_bytes": 1000}, "too long"),
    ],
)
def test_what_is_no_message_is_refused(pair, sent, limits, said):
    one, other = pair
    one.sendall(sent)
    line = ReceivedLines(other, **limits)
    with pytest.raises(ValueError, match=said):
        line.read_some()
        line.next()


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
