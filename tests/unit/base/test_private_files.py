"""Files and sockets of ours that the program closed, and whose numbers are others' now."""

import os
import resource
import socket

import pytest

from opscope.base.private_files import OwnFile, OwnSocket


def is_open(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_a_file_is_ours_until_it_is_closed(tmp_path):
    file = OwnFile(os.open(tmp_path, os.O_RDONLY))
    descriptor = file.descriptor
    assert file.is_ours() and descriptor >= 512 and not os.get_inheritable(descriptor)
    file.close()
    assert not is_open(descriptor) and not file.is_ours()
    assert file.descriptor == -1
    file.close()


def test_what_has_its_number_now_is_left_open(tmp_path):
    file = OwnFile(os.open(tmp_path, os.O_RDONLY))
    descriptor = file.descriptor
    other = os.open(os.devnull, os.O_RDONLY)
    os.dup2(other, descriptor)
    assert not file.is_ours()
    file.close()
    assert is_open(descriptor)
    os.close(other)
    os.close(descriptor)
    assert not file.is_ours()


def test_none_has_the_number_of_a_standard_one_also_where_few_may_be_open(tmp_path):
    limits, kept = resource.getrlimit(resource.RLIMIT_NOFILE), os.dup(0)
    os.close(0)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, limits[1]))
        file, own = OwnFile(os.open(tmp_path, os.O_RDONLY)), OwnSocket(socket.socket())
        assert 3 <= file.descriptor < 64 and 3 <= own.socket.fileno() < 64 and not is_open(0)
        file.close()
        own.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        os.dup2(kept, 0)
        os.close(kept)


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_socket_of_the_program_is_left_open(is_closed):
    own, theirs = OwnSocket(socket.socket()), socket.socketpair()
    number = own.socket.fileno()
    os.dup2(theirs[0].fileno(), number)
    assert not own.is_ours()
    if is_closed:
        own.close()
    del own
    theirs[0].close()
    program = socket.socket(fileno=number)
    program.send(b"x")
    assert theirs[1].recv(1) == b"x"
    program.close()
    theirs[1].close()
