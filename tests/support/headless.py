"""A process whose first thread has ended, and which goes on in another."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from opscope.launch.process_end import state_of

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
