"""Traces of the processes of a job that have ended, from the recordings that they left."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opscope.errors import LifecycleError, OpscopeError
from opscope.recording.recovered import (
    NothingRecorded,
    part_of_recording,
    recover_file,
    remove_if_nothing,
)
from opscope.trace.process_journal import read_journal
from opscope.trace.unfinished_recordings import process_of_recording, unfinished_below

_HOW = {"killed": "its process was {}", "exited": "its process {}", "became": "its process {}"}


def recover_ended(folder: Path) -> list[OpscopeError]:
    """Make traces of the recordings in ``folder``, and in its cycles, whose processes are gone.

    What went wrong is returned.

    Several processes may do so at the same time: each recording is one's.
    """
    failures: list[OpscopeError] = []
    own = os.getpid()
    for path in list(unfinished_below(folder)):
        if process_of_recording(path) == own:
            continue
        with alone_with(path) as is_there:
            try:
                if is_there:
                    part = part_of_recording(path)
                    recover_file(path, _how_it_ended(folder, path))
                    _roll_up(path.parent / part.folder_name)
            except LifecycleError:  # it is still being recorded
                pass
            except NothingRecorded:  # the list of processes says so of this one
                remove_if_nothing(path)
            except OpscopeError as error:
                failures.append(error)
    return failures


def _roll_up(part: Path) -> None:
    """Of a long recording, which is in memory nowhere, that is not done yet."""
    from opscope.rollup.write import roll_up_on_disk  # with all analyses

    roll_up_on_disk(part)


def recover_quietly(folder: str) -> None:
    """As :func:`recover_ended`; what cannot be recovered stays for ``opscope recover``."""
    recover_ended(Path(folder))


def _how_it_ended(folder: Path, path: Path) -> str:
    part = part_of_recording(path)
    ended = [entry.ended for entry in read_journal(folder) if entry.partition == part]
    return _HOW.get(ended[-1].partition(" ")[0], "{}").format(ended[-1]) if any(ended) else ""


@contextmanager
def alone_with(path: Path) -> Iterator[bool]:
    """While nobody else makes a trace of it; False if somebody has."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield path.exists()
    finally:
        os.close(file)
