"""Distinguishes the program's own source files from installed ones."""

from __future__ import annotations

import linecache
import os
import re
import stat
import sys

LIBRARY_MARKS = (
    *("/site-packages/", "/dist-packages/", "<frozen", "/lib/python3", "\\Lib\\"),
    sys.prefix + "/lib/python",
)
"""What the full names of installed files contain."""

LIBRARY_ENDINGS = ("/opscope", "/pytest", "/torchrun", "/opscope/torch_api/annotate.py")
"""How the names of installed files end that start programs, and stand in no such folder; the last
is opscope's one file whose calls are recorded, wherever opscope is."""

WAITING_FUNCTIONS = (
    *("threading.py:wait", "threading.py:acquire", "threading.py:join"),
    *("threading.py:_wait_for_tstate_lock", "selectors.py:select", "queue.py:get", "queue.py:put"),
    *("subprocess.py:wait", "subprocess.py:_wait", "subprocess.py:_try_wait"),
    *("subprocess.py:communicate", "subprocess.py:_communicate"),
    *("socket.py:accept", "socket.py:readinto", "multiprocessing/queues.py:get"),
    *("multiprocessing/connection.py:wait", "multiprocessing/connection.py:poll"),
    *("multiprocessing/connection.py:_poll", "multiprocessing/connection.py:_recv"),
    *("multiprocessing/popen_fork.py:poll", "multiprocessing/popen_fork.py:wait"),
    *("multiprocessing/popen_forkserver.py:poll", "concurrent/futures/_base.py:result"),
    *("concurrent/futures/_base.py:wait", "concurrent/futures/_base.py:as_completed"),
    "zmq/sugar/poll.py:poll",
)
"""Functions of libraries that do nothing until something else has happened: file and name."""

IMPORTING_FUNCTION = "<frozen importlib._bootstrap>:_find_and_load"

ALWAYS_RECORDED = (*WAITING_FUNCTIONS, IMPORTING_FUNCTION)
"""Where only the program's own functions are recorded these are too, so the time is not theirs."""


_GENERATED = re.compile(r"(^|/)[a-z2-7]{2}/c[a-z2-7]{51}\.py$")
"""Files that inductor generates have a checksum for a name, in a folder named after part of it."""


def is_library(file: str) -> bool:
    """Whether a file is installed, or generated, and not part of the program; or has no name."""
    if not file or file.startswith("torch/"):  # as older traces name it
        return True
    if _GENERATED.search(file):
        return True
    return any(mark in file for mark in LIBRARY_MARKS) or ("/" + file).endswith(LIBRARY_ENDINGS)


_LARGEST_BYTES = 16 << 20
"""Of a file of source."""


def lines_of_source(file: str) -> list[str]:
    """The lines of a file of source; none of what cannot be read.

    What was recorded elsewhere may name anything: a pipe that nothing is written to, a device that
    has no end.
    """
    if file not in linecache.cache:  # the text of a cell of a notebook is nowhere else
        try:
            status = os.stat(file)
        except OSError:
            pass  # linecache looks for it in the places that modules come from
        except ValueError:  # no file can be called so
            return []
        else:
            if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_BYTES:
                return []
    return linecache.getlines(file)
