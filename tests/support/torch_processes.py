"""Programs that have torch from their start, without the time that importing it takes."""

from __future__ import annotations

import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

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


class TorchProgram:
    """``subprocess.Popen`` with pipes for output and errors, of a program as of ``run_torch``."""

    def __init__(
        self,
        *arguments: object,
        added: Mapping[str, str] | None = None,
        cwd: str | Path = ".",
        start_new_session: bool = False,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
    ) -> None:
        """Standard output goes to ``stdout`` where that is given."""
        self.stdout: TextIO | None = None
        self.returncode: int | None = None
        request = {
            "arguments": [str(one) for one in arguments],
            "environment": {**os.environ, **(added or {})},
            "folder": os.path.abspath(cwd),
            "is_session": start_new_session,
        }
        server, _ = _server()
        self._ended, ended = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        err, err_written = os.pipe()
        out, out_written = (-1, stdout.fileno()) if stdout else os.pipe()
        with open(os.devnull) as nothing, ended:
            streams = [(stdin or nothing).fileno(), out_written, err_written, ended.fileno()]
            socket.send_fds(server, [json.dumps(request).encode()], streams)
        os.close(err_written)
        self.stderr = os.fdopen(err)
        if not stdout:
            os.close(out_written)
            self.stdout = os.fdopen(out)
        self.pid = int(self._ended.recv(32))

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._ended], [], [], 0)[0]:
            self.returncode = os.waitstatus_to_exitcode(int(self._ended.recv(32)))
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            select.select([self._ended], [], [], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float = 300) -> tuple[str, str]:
        """What it says until all that have its streams have ended, as of subprocess."""
        limit = threading.Timer(timeout, self.kill)
        limit.start()
        said: list[str] = []
        reader = threading.Thread(
            target=lambda: said.append(self.stdout.read() if self.stdout else "")
        )
        reader.start()
        errors = self.stderr.read()
        reader.join()
        self.wait()
        limit.cancel()
        limit.join()
        self._close()
        return said[0], errors

    def _close(self) -> None:
        self._ended.close()
        self.stderr.close()
        if self.stdout:
            self.stdout.close()

    def __enter__(self) -> TorchProgram:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self._close()


def run_torch(
    *arguments: object, timeout: float = 300, input: str = "", **options: object
) -> subprocess.CompletedProcess[str]:
    """``run_python`` of a program that imports torch, which is there already.

    It is forked from a process that has torch, with its compiler, and not opscope. So this is not
    for programs that look at their imports, their first frame, their command or their parent, nor
    for what Python and torch read of the environment as they start. Standard output is a file,
    standard error a pipe.

    Args:
        *arguments: ``-c`` and a source, ``-m`` and a module, or a file; then the program's own.
        timeout: in seconds, after which it is killed.
        input: its standard input, a file.
        **options: ``added`` to the environment, ``cwd``, ``start_new_session``.
    """
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as out:
        given.write(input)
        given.seek(0)
        program = TorchProgram(*arguments, stdin=given, stdout=out, **options)
        _, said = program.communicate(timeout)
        out.seek(0)
        return subprocess.CompletedProcess(arguments, program.wait(), out.read(), said)
