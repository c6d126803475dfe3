"""Forked children that say what is wrong; one that crashes or hangs is told with its status."""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable

LONGEST_S = 240


def in_child(work: Callable[[], object]) -> None:
    """Call ``work`` in a forked child and wait for it; a text that it returns is what is wrong.

    Raises:
        AssertionError: something was, or the child crashed or hung.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            os.write(writing, _said_by(work).encode()[-8000:])
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], LONGEST_S)
    if not ready:
        os.kill(child, signal.SIGABRT)  # faulthandler says where it hangs
    said = b""
    while part := os.read(reading, 8192):
        said += part
    os.close(reading)
    _, status = os.waitpid(child, 0)
    assert ready, f"a forked child hung for {LONGEST_S} s; its threads are on standard error"
    assert os.waitstatus_to_exitcode(status) == 0, f"a forked child ended with {status}"
    assert not said, "in a forked child:\n" + said.decode(errors="replace")


def _said_by(work: Callable[[], object]) -> str:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.enable(sys.__stderr__ or 2)  # pytest replaces sys.stderr
        said = work()
        return said if isinstance(said, str) else ""
    except BaseException:
        return traceback.format_exc()
