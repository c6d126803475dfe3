"""Files and sockets of ours that the program closed, and whose numbers are others' now."""

import os
import socket

import pytest

from opscope.own_file import OwnFile, OwnSocket


def is_open(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_a_file_is_ours_until_it_is_closed(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    file = OwnFile(descriptor)
    assert file.is_ours()
    file.close()
    assert not is_open(descriptor) and not file.is_ours()
    file.close()


def test_what_has_its_number_now_is_left_open(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    file = OwnFile(descriptor)
    other = os.open(os.devnull, os.O_RDONLY)
    os.dup2(other, descriptor)
    assert not file.is_ours()
    file.close()
    assert is_open(descriptor)
    os.close(other)
    os.close(descriptor)
    assert not file.is_ours()


def test_a_socket_is_ours_until_it_is_closed():
    one, other = map(OwnSocket, socket.socketpair())
    assert one.is_ours()
    one.close()
    one.close()
    assert other.socket.recv(1) == b""
    other.close()


def test_a_socket_of_the_program_is_left_open():
    ours, theirs = socket.socket(), socket.socketpair()
    number, own = ours.fileno(), OwnSocket(ours)
    os.dup2(theirs[0].fileno(), number)
    assert not own.is_ours()
    own.close()
    theirs[0].close()
    program = socket.socket(fileno=number)
    program.send(b"x")
    assert theirs[1].recv(1) == b"x"
    program.close()
    theirs[1].close()


def test_what_is_not_open_is_no_file():
    with pytest.raises(OSError):
        OwnFile(-1)
