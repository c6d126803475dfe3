"""File locks that show which process owns a file, also across containers and machines.

A recording process holds a shared lock while it runs; a process that takes over its files holds an
exclusive lock. The kernel releases both at the process's end. This imports nothing of opscope.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

TRIES = 5
_PAUSE_S = 0.01  # maximum pause between two tries


class Holder(enum.Enum):
    """Owner of a file's lock."""

    OURS = "this process, from now on"
    RECORDER = "the process that records to it"
    CLAIMANT = "a process that makes a trace of it"


class NoLocksError(OSError):
    """The file system has no locks or does not respond: the owner is unknown."""


def try_lock(file: int, tries: int = 1) -> Holder:
    """Lock a file that is open for writing, if it is free; returns its owner now.

    Args:
        tries: more than 1 to keep the lock, because other processes may check it at the same time.

    Raises:
        NoLocksError: the owner cannot be determined.
    """
    holder = Holder.OURS
    for number in range(tries):
        if number:
            time.sleep(os.urandom(1)[0] / 256 * _PAUSE_S)
        if _try_flock(file, fcntl.LOCK_EX):
            return Holder.OURS
        holder = Holder.CLAIMANT
        if _try_flock(file, fcntl.LOCK_SH):
            unlock(file)
            holder = Holder.RECORDER
    return holder


def lock_shared(file: int) -> bool:
    """Lock shared, as a recording process does; False if locking fails."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH)
        return True
    except OSError:
        return False


def lock_alone(file: int) -> None:
    """Lock exclusively, as a claimant does; waits until no other process holds the lock."""
    fcntl.flock(file, fcntl.LOCK_EX)


def wait_for_claimant(file: int) -> None:
    """Wait until no process makes a trace of the file."""
    fcntl.flock(file, fcntl.LOCK_SH)
    unlock(file)


def unlock(file: int) -> None:
    """Unlock, also for children that were forked meanwhile and share the file."""
    fcntl.flock(file, fcntl.LOCK_UN)


@contextlib.contextmanager
def turn_of(folder: Path) -> Iterator[None]:
    """Lock for making traces: one process of a folder at a time, as the program needs the CPUs."""
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # some file systems have no locks for folders
            lock_alone(file)
        yield
    finally:
        os.close(file)


def _try_flock(file: int, operation: int) -> bool:
    try:
        fcntl.flock(file, operation | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except OSError as error:
        raise NoLocksError(error.errno or errno.ENOLCK, "its file system has no locks") from error
