"""The keeper's work while a long recording goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from opscope.recording.recovered import about_of, is_drainable
from opscope.recording.segments import Drain, draining, remove_segments


def drain_while(recording: Path, goes_on: Callable[[], bool]) -> None:
    """Move a recording to segments as it grows.

    Args:
        recording: its file.
        goes_on: asked when there is nothing to do; it waits a moment.

    Raises:
        TraceFormatError: the file is none of this version.
    """
    about = about_of(recording)
    if not is_drainable(about):
        return
    drained: Drain | None = None
    while True:
        with draining(recording):
            if not recording.exists():  # its trace is written
                return remove_segments(recording)
            if drained is None or drained.is_behind():
                drained = Drain(recording, about["prefixes"])
            more = drained.next()
        if not more and not goes_on():
            return
