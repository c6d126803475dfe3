"""Locks that say which process owns a file, also across containers and machines.

A process that records holds the lock shared for as long as it runs; a process that takes over what
it left holds it exclusively. The kernel releases both with the process. This imports nothing of
opscope.
"""

from __future__ import annotations

import enum
import errno
import fcntl
import os
import time

TRIES = 5
_PAUSE_S = 0.01
"""Between two of them at most."""


class Holder(enum.Enum):
    """Who has a file."""

    OURS = "this process, from now on"
    RECORDER = "the process that records to it"
    CLAIMANT = "a process that makes a trace of it"


class NoLocksError(OSError):
    """The file system has no locks, or does not answer: the owner is unknown."""


def try_lock(file: int, tries: int = 1) -> Holder:
    """Lock a file that is open for writing, if it is free; says who has it now.

    Args:
        file: its descriptor.
        tries: several for who means to keep it: others may look at the same moment.

    Raises:
        NoLocksError: that cannot be known.
    """
    holder = Holder.OURS
    for number in range(tries):
        if number:
            time.sleep(os.urandom(1)[0] / 256 * _PAUSE_S)
        if _locked(file, fcntl.LOCK_EX):
            return Holder.OURS
        holder = Holder.CLAIMANT
        if _locked(file, fcntl.LOCK_SH):
            unlock(file)
            holder = Holder.RECORDER
    return holder


def lock_shared(file: int) -> bool:
    """Lock as the process that records does; False where there are no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH)
        return True
    except OSError:
        return False


def lock_alone(file: int) -> None:
    """Lock exclusively, as a claimant does, once no other process has the file."""
    fcntl.flock(file, fcntl.LOCK_EX)


def wait_for_claimant(file: int) -> None:
    """Until no process makes a trace of it any more."""
    fcntl.flock(file, fcntl.LOCK_SH)
    unlock(file)


def unlock(file: int) -> None:
    """Also for children that were forked meanwhile and have the same file."""
    fcntl.flock(file, fcntl.LOCK_UN)


def _locked(file: int, how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except OSError as error:
        raise NoLocksError(error.errno or errno.ENOLCK, "its file system has no locks") from error
