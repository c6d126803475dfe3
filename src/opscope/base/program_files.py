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
"""Path parts of installed files."""

LIBRARY_ENDINGS = ("/opscope", "/pytest", "/torchrun", "/opscope/torch_api/annotate.py")
"""Path endings of installed files that start programs. Calls of the last one are recorded."""

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
"""Library functions that only wait: file and name."""

IMPORTING_FUNCTION = "<frozen importlib._bootstrap>:_find_and_load"

ALWAYS_RECORDED = (*WAITING_FUNCTIONS, IMPORTING_FUNCTION)
"""Recorded in every mode; otherwise their time would count for the program's functions."""


_GENERATED = re.compile(r"(^|/)[a-z2-7]{2}/c[a-z2-7]{51}\.py$")
"""Files that inductor generates: the name is a checksum, the folder a part of it."""


def is_library(file: str) -> bool:
    """Whether a file is installed or generated, not the program's; True for an empty name."""
    if not file or file.startswith("torch/"):  # in older traces
        return True
    if _GENERATED.search(file):
        return True
    return any(mark in file for mark in LIBRARY_MARKS) or ("/" + file).endswith(LIBRARY_ENDINGS)


_LARGEST_BYTES = 16 << 20  # maximum size of a source file


def lines_of_source(file: str) -> list[str]:
    """Lines of a source file; empty if it cannot be read.

    A trace of unknown origin may name any file, such as a pipe without a writer.
    """
    if file not in linecache.cache:  # the only copy of a notebook cell's text
        try:
            status = os.stat(file)
        except OSError:
            pass  # linecache searches the module paths
        except ValueError:  # not a valid file name
            return []
        else:
            if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_BYTES:
                return []
    return linecache.getlines(file)
