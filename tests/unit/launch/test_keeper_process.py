"""When a keeper lets go of the standard error that it shares with the program."""

import contextlib
import os
import signal
import socket
import stat
import time

from opscope.launch import keeper_process
from opscope.launch.keeper_process import close_unread_stderr


@contextlib.contextmanager
def shared_error():
    """A pipe as standard error, and whether it still is one. In a test, not around it: there
    pytest has it."""
    kept = os.dup(2)
    reader, writer = os.pipe()
    os.dup2(writer, 2)
    os.close(writer)
    try:
        yield lambda: stat.S_ISFIFO(os.fstat(2).st_mode)
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(reader)


@contextlib.contextmanager
def program(begin=lambda: None):
    """A child that waits to be killed."""
    child = os.fork()
    if child == 0:
        begin()
        time.sleep(60)
        os._exit(0)
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_it_stays_for_as_long_as_the_program_has_it():
    with shared_error() as is_shared, program() as child:
        close_unread_stderr(child)
        assert is_shared()


def test_it_goes_where_the_program_has_closed_it():
    with shared_error() as is_shared, program(lambda: os.closerange(2, 256)) as child:
        until = time.monotonic() + 10
        while "2" in os.listdir(f"/proc/{child}/fd") and time.monotonic() < until:
            time.sleep(0.01)
        close_unread_stderr(child)
        assert not is_shared()


def test_it_stays_where_the_program_ends_while_its_files_are_looked_at(monkeypatch):
    identity_of = keeper_process._identity_of

    def ends(file):
        os.kill(child, signal.SIGKILL)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        return identity_of(file)

    with shared_error() as is_shared, program() as child:
        monkeypatch.setattr(keeper_process, "_identity_of", ends)
        close_unread_stderr(child)
        assert is_shared()


def test_it_is_asked_by_what_is_sent_and_not_by_an_end():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.send(b"?{}\n")
        assert keeper_process.has_request(theirs.fileno())
        assert theirs.recv(9) == b"{}\n"  # is left for what the keeper becomes
        ours.close()
        assert not keeper_process.has_request(theirs.fileno())


def test_what_a_program_asks_for_last_is_done_though_it_has_ended(tmp_path):
    ours, theirs = socket.socketpair()
    with ours, theirs, program() as child:
        ours.send(b"?{}\n")
        os.kill(child, signal.SIGKILL)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        how = keeper_process.wait_for(child, theirs.fileno(), str(tmp_path), "of-it", [])
    assert how == keeper_process.REQUEST
