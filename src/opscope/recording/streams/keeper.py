"""Beginning and dismissing the keeper: the process that outlives this one, see ``launch``."""

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
"""By folder: the process that has a keeper for it, and this end of what connects it to that."""
_BECOMES = Path(__file__).parents[2] / "cli" / "session" / "keeper.py"
_LONGEST_S = 5
"""What is sent to a keeper is read at once."""
_was_said = False


def begin_keeper(folder: Path) -> None:
    """Have a process wait for the end of this one, for recordings in ``folder``.

    It is no child of this process, has no terminal, and no more of this process's files than its
    standard error. Without one only ``opscope doctor --recover`` is left, so trouble is no
    error: it is said once, and who calls this again tries again.
    """
    process, pipe = _pipes.get(folder, (0, None))
    if pipe is not None and process == os.getpid() and pipe.is_ours():
        return  # else the program has closed it, and the keeper goes
    try:
        _pipes[folder] = (os.getpid(), _begun(folder))
    except (OSError, ValueError, TypeError) as error:  # no more processes or files, or no Python
        _warning(folder, str(error))


def send_to_keeper(folder: Path, request: str, goes_on: bool) -> OwnSocket:
    """Have the keeper of ``folder`` make something of the recordings that have ended, now.

    Args:
        folder: of the trace.
        request: one line.
        goes_on: the program goes on meanwhile, so that the keeper gives way to it.

    Returns:
        What can be read from once it has, or is gone. For what is recorded later there is another
        keeper, if one is begun.

    Raises:
        OSError, ValueError, TypeError: there is none, and none can be begun.
    """
    process, pipe = _pipes.pop(folder, (0, None))
    if pipe is not None and process == os.getpid() and pipe.is_ours():
        with suppress(OSError, ValueError):  # it was killed, or closed just now
            return _sent(OwnSocket.of(pipe), request, goes_on)
    return _sent(OwnSocket.of(_begun(folder)), request, goes_on)


def _sent(pipe: OwnSocket, request: str, goes_on: bool) -> OwnSocket:
    # Not settimeout(): poll() fails in a process that may have no more files.
    limit = struct.pack("ll", _LONGEST_S, 0)
    pipe.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    # Without a signal, whatever the program has SIGPIPE do.
    kind = keeper_process.BESIDE if goes_on else keeper_process.AT_END
    pipe.socket.sendall(kind + f"{request}\n".encode(), socket.MSG_NOSIGNAL)
    return pipe


def _begun(folder: Path) -> OwnFile:
    """This end of what connects this process to one."""
    # Not Python's own sockets, which close whatever has their numbers when they go.
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
    """Begin a process that watches this one, and is none of its children.

    Args:
        script: what it runs, which takes the number of this process and ``words``.
        words: and what it becomes in the end.
        error: its standard error; None for this process's.
        kept: descriptors that it has, too.
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
    global _was_said
    if not _was_said:
        _was_said = True
        notice(
            f"there is no watchdog process ({why}). If this process is killed, write its trace "
            f"with: opscope doctor --recover {quote(str(folder))}"
        )


def dismiss_keepers() -> None:
    """All is written: they look once more, and go."""
    for process, pipe in _pipes.values():
        if process == os.getpid():
            pipe.close()
    _pipes.clear()


def dismiss_keeper(folder: Path) -> None:
    """Nothing is to be written to that folder any more: its keeper looks once more, and goes."""
    process, pipe = _pipes.pop(folder, (0, None))
    if pipe is not None and process == os.getpid():
        pipe.close()


def _forget_in_child() -> None:
    """A child keeps no keeper waiting."""
    for _, pipe in _pipes.values():
        pipe.close()
    _pipes.clear()


os.register_at_fork(after_in_child=_forget_in_child)
