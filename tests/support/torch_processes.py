"""Programs that have torch from their start, without the time that importing it takes."""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

SERVER = Path(__file__).with_name("torch_server.py")
ENVIRONMENT = dict(os.environ)
"""Before any test changes it."""


@functools.cache
def _server() -> tuple[socket.socket, object]:
    """It ends with this process, which alone has this end of the connection."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, str(SERVER), str(theirs.fileno())]
        process = subprocess.Popen(
            command, env=ENVIRONMENT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
        )
    return ours, process


def run_torch(
    *arguments: object,
    added: Mapping[str, str] | None = None,
    cwd: str | Path = ".",
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """``run_python`` of a program that imports torch, which is there already.

    It is forked from a process that has torch and not opscope. So this is not for programs that
    look at their imports, their first frame, their command or their parent, nor for what Python
    and torch read of the environment as they start. Standard output is a file, standard error a
    pipe.

    Args:
        *arguments: ``-c`` and a source, ``-m`` and a module, or a file; then the program's own.
    """
    request = {
        "arguments": [str(one) for one in arguments],
        "environment": {**os.environ, **(added or {})},
        "folder": os.path.abspath(cwd),
    }
    server, _ = _server()
    ends, written = os.pipe()
    with open(os.devnull) as given, tempfile.TemporaryFile("w+") as out:
        streams = [given.fileno(), out.fileno(), written]
        socket.send_fds(server, [json.dumps(request).encode()], streams)
        os.close(written)
        child = int(server.recv(32))
        limit = threading.Timer(timeout, os.kill, (child, signal.SIGKILL))
        limit.start()
        with open(ends) as err:  # until all that have it have ended, as of subprocess
            said = err.read()
        ended = int(server.recv(32))
        limit.cancel()
        limit.join()
        out.seek(0)
        code = os.waitstatus_to_exitcode(ended)
        return subprocess.CompletedProcess(arguments, code, out.read(), said)
