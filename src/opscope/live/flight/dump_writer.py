"""Makes traces of dumps whose writer is gone, in turn with other writing processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from opscope.base.artefacts import at, remove
from opscope.live.flight.dump_request import is_whole
from opscope.live.flight.write_dump import write_dump
from opscope.recording.claims import ours
from opscope.recording.recovered import left_to_be_recovered


def finish_dump(spool: Path) -> Path | None:
    """Make the trace of a dump, in turn with other processes; None if another one has made it.

    Raises:
        OpscopeError: it cannot be written, or another process writes it.
        OSError, ValueError: the spool cannot be read.
    """
    one, folder = at(spool), spool.parent
    assert one is not None, f"{spool} is not the name of a dump"
    with turn_of(folder), ours(one) as is_there, left_to_be_recovered(spool.name, folder):
        if not is_there:
            return None
        if not is_whole(spool):
            remove(one)
            raise ValueError("its program was killed before it was complete; it was removed")
        return write_dump(spool)


@contextlib.contextmanager
def turn_of(folder: Path) -> Iterator[None]:
    """Let one process at a time make traces of a folder: the program needs the CPUs."""
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # some file systems have no locks for folders
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
