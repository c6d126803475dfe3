"""Starts and dismisses the keeper, the watchdog process of ``launch/keeper_process.py``."""

from __future__ import annotations

import _socket
import errno
import os
import socket
import struct
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote

from opscope.base.artefacts import owner
from opscope.base.notice import notice
from opscope.base.private_files import OwnFile, OwnSocket
from opscope.base.python_process import bare_python, own_python
from opscope.launch import keeper_process
from opscope.launch.process_end import NO_PROCESS

_pipes: dict[Path, tuple[int, OwnFile]] = {}
"""By folder: the process with a keeper for it, and this end of the connection to the keeper."""
_BECOMES = Path(__file__).parents[2] / "cli" / "session" / "keeper.py"
_LONGEST_S = 5  # timeout of sending; a keeper reads at once
_was_printed = False


def begin_keeper(folder: Path) -> None:
    """Start a keeper, which waits for the end of this process, for recordings in ``folder``.

    The keeper is no child of this process, has no terminal, and of this process's files only its
    standard error. If it cannot start, one notice is printed, and the next call tries again;
    ``opscope doctor --recover`` remains possible.
    """
    process, pipe = _pipes.get(folder, (0, None))
    if pipe is not None and process == os.getpid() and pipe.is_ours():
        return  # else the program has closed it, and the keeper ends
    try:
        _pipes[folder] = (os.getpid(), _begun(folder))
    except (OSError, ValueError, TypeError) as error:  # too many processes or files, or no Python
        _warning(folder, str(error))


class Answer(OwnSocket):
    """The connection to a keeper, which answers a request with one byte when the work is done."""

    def received(self, longest_s: float | None = 0) -> bytes | None:
        """``DONE``; empty if the keeper is gone; None after the time limit (None: no limit).

        May be called again. If the program has closed the connection, the work counts as done.
        """
        if not self.is_ours():
            return keeper_process.DONE
        # Not settimeout(): its poll() fails in a process that must not open more files.
        limit_us = 0 if longest_s is None else int(longest_s * 1e6)
        is_waiting = longest_s is None or limit_us > 0
        flags = socket.MSG_PEEK if is_waiting else socket.MSG_PEEK | socket.MSG_DONTWAIT
        try:
            if is_waiting:
                limit = struct.pack("ll", *divmod(limit_us, 1_000_000))
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            return self.socket.recv(1, flags)
        except BlockingIOError:
            return None
        except OSError:
            return b""


def send_to_keeper(folder: Path, request: str, continues: bool) -> Answer:
    """Request work on the ended recordings from the keeper of ``folder``.

    Args:
        folder: folder of the trace.
        request: one line.
        continues: the program continues, so the keeper runs with low priority.

    Returns:
        The answer. Later recordings need a new keeper.

    Raises:
        OSError, ValueError, TypeError: there is no keeper, and none can be started.
    """
    process, pipe = _pipes.pop(folder, (0, None))
    if pipe is not None and process == os.getpid() and pipe.is_ours():
        with suppress(OSError, ValueError):  # the keeper was just killed, or the socket closed
            return _sent(Answer.of(pipe), request, continues)
    return _sent(Answer.of(_begun(folder)), request, continues)


def _sent(pipe: Answer, request: str, continues: bool) -> Answer:
    # Not settimeout() to limit it: poll() fails in a process that may not open more files.
    pipe.socket.settimeout(None)  # the program may have set a default
    limit = struct.pack("ll", _LONGEST_S, 0)
    pipe.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    # No SIGPIPE, which the program may handle.
    kind = keeper_process.BESIDE if continues else keeper_process.AT_END
    pipe.socket.sendall(kind + f"{request}\n".encode(), socket.MSG_NOSIGNAL)
    return pipe


def _begun(folder: Path) -> OwnFile:
    # Not Python's sockets, whose destructors close whatever file has their number by then.
    theirs, ours = (OwnFile(end.detach()) for end in _socket.socketpair())
    try:
        words = ["program", str(theirs.descriptor), os.fspath(folder), owner()]
        begin_watching(keeper_process.__file__, words, None, theirs.descriptor)
        return ours
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()


def begin_watching(
    script: str, words: Sequence[str], error: int | None = subprocess.DEVNULL, *kept: int
) -> None:
    """Start a process that watches this one and is no child of it.

    Args:
        script: its script; its arguments are this process's id, ``words``, and the command that it
            becomes at the end.
        words: more arguments.
        error: its standard error; None for this process's.
        kept: descriptors that it inherits.
    """
    begun = subprocess.run(
        [*bare_python(script, str(os.getpid())), *words, *own_python(str(_BECOMES))],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=error,
        pass_fds=kept,
        start_new_session=True,
        check=False,
    )
    if begun.returncode == NO_PROCESS:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def _warning(folder: Path, why: str) -> None:
    global _was_printed
    if not _was_printed:
        _was_printed = True
        notice(
            f"there is no watchdog process ({why}). If this process is killed, write its trace "
            f"with: opscope doctor --recover {quote(str(folder))}"
        )


def dismiss_keepers(folder: Path | None = None) -> None:
    """End the keeper of a folder, or all keepers, after a last check: everything is written.

    In a forked child this closes the copies of the connections, so that no keeper waits for it.
    """
    for one in list(_pipes) if folder is None else [folder]:
        _, pipe = _pipes.pop(one, (0, None))
        if pipe is not None:
            pipe.close()


os.register_at_fork(after_in_child=dismiss_keepers)
