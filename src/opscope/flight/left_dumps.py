"""Dumps that nobody makes traces of any more: who was to do so was killed, or nothing began it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from opscope.flight.dump_writer import KIND, TAKEN, take, take_over
from opscope.flight.limits import SPOOL_PREFIX
from opscope.flight.write_dump import write_dump
from opscope.running_process import is_there


def is_taken(spool: Path) -> bool:
    """Whether the process that makes traces has come to it, or it is gone."""
    return (spool / TAKEN).exists() or not spool.exists()


def is_left(spool: Path) -> bool:
    """Whether the process that should make a trace of it has ended without."""
    with contextlib.suppress(OSError, ValueError, OverflowError):
        return not is_there(int((spool / TAKEN).read_text()))
    return False


def left_dumps(folder: Path) -> list[Path]:
    """Those in ``folder`` that are complete and that nobody is at, oldest first."""
    found = []
    for spool in folder.glob(SPOOL_PREFIX + "*"):
        with contextlib.suppress(OSError):
            written_ns = (spool / KIND).stat().st_mtime_ns
            if is_left(spool) or not is_taken(spool):
                found.append((written_ns, spool))
    return [spool for _, spool in sorted(found)]


def finish_dump(spool: Path) -> Path | None:
    """Make the trace of one, in turn with whoever else makes some; None if somebody else has.

    Raises:
        OpscopeError: it cannot be written.
        OSError: what was left cannot be read.
    """
    # Recording takes NumPy alone, which this does not.
    from opscope.recording.recovered import left_to_be_recovered

    with turn_of(spool.parent), left_to_be_recovered(spool.name, spool.parent):
        if is_left(spool):
            take_over(spool)
        elif not take(spool):
            return None
        return write_dump(spool)


@contextlib.contextmanager
def turn_of(folder: Path) -> Iterator[None]:
    """One process at a time makes traces of what is in a folder."""
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
