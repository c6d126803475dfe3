"""Beginning and dismissing the keeper: the process that outlives this one, see ``launch``."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from shlex import quote

from opscope.launch import keeper_process
from opscope.notice import notice
from opscope.own_file import OwnFile

_HIGH_DESCRIPTOR = 512
"""Out of the way of programs that close those they might have opened."""

_pipes: dict[Path, tuple[int, OwnFile]] = {}
"""By folder: the process that has a keeper for it, and this end of the pipe to that."""
_was_said = False


def begin_keeper(folder: Path) -> None:
    """Have a process wait for the end of this one, for recordings in ``folder``.

    It is no child of this process, has no terminal, and no more of this process's files than its
    standard error. Without one only ``opscope recover`` is left, so trouble is no error: it is said
    once, and who calls this again tries again.
    """
    if folder in _pipes and _pipes[folder][0] == os.getpid():
        return
    try:
        _pipes[folder] = (os.getpid(), OwnFile(_begun(folder)))
    except (OSError, ValueError, TypeError) as error:  # no more processes or files, or no Python
        _said(folder, str(error))


def _begun(folder: Path) -> int:
    """This end of the pipe to one.

    Raises:
        OSError, ValueError, TypeError: there can be none.
    """
    command = [sys.executable, "-I", "-S", keeper_process.__file__, str(os.getpid())]
    theirs, ours = os.pipe()
    try:
        begun = subprocess.run(
            [*command, str(theirs), os.fspath(folder), os.fspath(Path(__file__).parents[2])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(theirs,),
            start_new_session=True,
            check=False,
        )
        if begun.returncode == keeper_process.NO_PROCESS:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return _out_of_the_way(ours)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)


def _said(folder: Path, why: str) -> None:
    global _was_said
    if not _was_said:
        _was_said = True
        notice(
            f"no process waits for the end of this one ({why}). If this one is killed, what it had "
            f"recorded becomes a trace by: opscope recover {quote(str(folder))}"
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


def _out_of_the_way(descriptor: int) -> int:
    try:
        higher = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _HIGH_DESCRIPTOR)
    except OSError:  # this process may have only so many
        return descriptor
    os.close(descriptor)
    return higher


def _forget_in_child() -> None:
    """A child keeps no keeper waiting."""
    for _, pipe in _pipes.values():
        pipe.close()
    _pipes.clear()


os.register_at_fork(after_in_child=_forget_in_child)
