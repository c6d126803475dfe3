"""How another process ended, told by what the kernel knows of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from opscope.launch.process_end import how_it_ended, is_there, state_of

_PROGRAM = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.PyDLL(None).pthread_exit(None)
"""


@contextmanager
def headless_process() -> Iterator[int]:
    """Its number; the kernel calls it a zombie. It is killed afterwards."""
    with subprocess.Popen([sys.executable, "-c", _PROGRAM]) as process:
        try:
            while state_of(process.pid) != "Z":
                assert process.poll() is None
            yield process.pid
        finally:
            process.kill()


def child_that(end):
    """A process that has ended and was not waited for, and what it is known by."""
    process = os.fork()
    if process == 0:
        end()
    descriptor = os.pidfd_open(process)
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    return process, descriptor


def be_killed():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("end", "how"), [(lambda: os._exit(9), "exited with code 9"), (be_killed, "killed by SIGKILL")]
)
def test_the_end_of_one_that_no_process_has_waited_for(end, how):
    process, descriptor = child_that(end)
    assert how_it_ended(process, descriptor) == how
    assert how_it_ended(process, -1) == how
    os.waitpid(process, 0)
    os.close(descriptor)


def test_of_one_that_was_waited_for_only_a_descriptor_knows():
    process, descriptor = child_that(lambda: os._exit(9))
    os.waitpid(process, 0)
    release = tuple(int(x) for x in os.uname().release.split(".")[:2])
    assert how_it_ended(process, -1) == ""
    assert how_it_ended(process, descriptor) == ("exited with code 9" if release >= (6, 15) else "")
    os.close(descriptor)


def test_a_process_that_has_ended_is_not_there_before_somebody_waits_for_it():
    child = os.fork()
    if child == 0:
        os._exit(0)
    try:
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        assert not is_there(child)
    finally:
        os.waitpid(child, 0)
    assert is_there(os.getpid())


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="nobody says how a process is")
def test_a_process_whose_first_thread_alone_has_ended_is_there():
    with headless_process() as process:
        assert is_there(process)
    assert not is_there(process)
