"""Only one process at a time moves a recording to segments; others wait, but not for ever."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote

from opscope.errors import UsageError
from opscope.launch.process_end import STATE, fields_of
from opscope.leftover.artefacts import SEGMENTS
from opscope.leftover.files import open_inside
from opscope.trace.input_file import unreadable

_LOOK_EVERY_S = 0.02
_PATIENCE_S = 2.0
"""With one that is stopped: a debugger, or whoever saves the state of a container, may be quick."""


@contextmanager
def draining(recording: Path) -> Iterator[None]:
    """Be the one that does.

    Raises:
        UsageError: the one that does is stopped, and nobody knows for how long.
        TraceFormatError: no lock can be had there.
    """
    folder = recording.with_suffix(SEGMENTS)
    folder.mkdir(exist_ok=True)
    try:
        lock = open_inside(folder.parent, f"{folder.name}/lock", os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise unreadable(folder / "lock", error) from error
    try:
        _wait_for(lock, recording)
        with suppress(OSError):  # a disk that is full: then others wait without knowing for whom
            os.pwrite(lock, f"{os.getpid():<20}".encode(), 0)
        yield
    finally:
        os.close(lock)


def _wait_for(lock: int, recording: Path) -> None:
    until_s = None
    while True:
        with suppress(BlockingIOError):
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        stopped = _stopped_holder_of(lock)
        if stopped is None:
            until_s = None
        elif until_s is None:
            until_s = time.monotonic() + _PATIENCE_S
        elif time.monotonic() > until_s:
            raise UsageError(
                f"{recording.name} cannot be read, because process {stopped}, which moves it to "
                f"segments, is stopped. Let that go on (kill -CONT {stopped}) or end it (kill -9 "
                f"{stopped}); nothing is lost by either. If no trace is there then, run "
                f"`opscope recover {quote(str(recording.parent))}`."
            )
        time.sleep(_LOOK_EVERY_S)


def _stopped_holder_of(lock: int) -> int | None:
    """The process that has it, if it is stopped by a signal or a debugger."""
    with suppress(OSError, ValueError, IndexError):
        holder = int(os.pread(lock, 20, 0))
        if fields_of(holder)[STATE] in "Tt":
            return holder
    return None
