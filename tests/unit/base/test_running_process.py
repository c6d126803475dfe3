"""Whether a process still runs."""

import os

import pytest

from opscope.launch.process_end import is_there
from support.headless import headless_process


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
