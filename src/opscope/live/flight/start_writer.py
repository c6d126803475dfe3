"""Begins the process that makes traces of dumps, where there is none: a file that is run.

The program waits until this ends, so it imports nothing of opscope before it has forked.
"""

import contextlib
import os
import socket
import struct
import sys

_MOST_ASK = 4096
"""Number of waiting requests that one process serves; with more, another one is started."""


def has_name(own: socket.socket, kind: str) -> bool:
    """Whether to begin: ``own`` has the name of this kind from now on, or another user keeps it
    from us. Not where a process of this user has it, which sees this dump too."""
    try:
        own.bind("\0" + kind)
        own.listen(_MOST_ASK)
    except OSError:
        return not _is_there(kind)
    return True


def _is_there(kind: str) -> bool:
    with socket.socket(socket.AF_UNIX) as other, contextlib.suppress(OSError):
        other.setblocking(False)
        other.connect("\0" + kind)
        owner = other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return bool(struct.unpack("3i", owner)[1] == os.getuid())
    return False


def _main(spool: str) -> None:
    try:
        with open(f"{spool}/writer") as file:
            kind = file.read()
    except FileNotFoundError:
        os._exit(0)  # its trace is there
    own = socket.socket(socket.AF_UNIX)
    if not has_name(own, kind) or os.fork():
        os._exit(0)
    os.environ.pop("OPSCOPE_CONTROL", None)
    from opscope.live.flight.dump_writer import main

    main(own, os.path.dirname(spool), kind)


if __name__ == "__main__":
    _main(sys.argv[1])
