"""A recording that is in a file while it runs, so that no end of its process loses it."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from opscope import _native
from opscope.base.artefacts import SEGMENTS, new_name, owner
from opscope.base.files import remove_inside
from opscope.base.notice import notice
from opscope.errors import UsageError
from opscope.recording.facts.process_facts import process_facts
from opscope.recording.facts.python_source import path_prefixes
from opscope.recording.sources import RecordingOptions
from opscope.recording.streams.keeper import begin_keeper
from opscope.storage.processes import job_of

NO_ROOM = "no space in its file: disk full, or size limit reached"
"""Why a recording that streams drops something, by the ledger's words."""

_SHARE_OF_FREE = 0.5
"""Of a disk, for one recording: the default limit."""

_LITTLE_BYTES = 4 << 20
"""With less free, its limit is smaller than what a file grows by."""


@dataclass
class Stream:
    """Where one recording goes."""

    folder: Path  # of the trace that it will be
    of: Streams  # of the profile
    # told why nothing can be written there, and then the recording is in memory only; None raises
    # it
    when_refused: Callable[[str], object] | None
    metadata: Mapping[str, Any] = field(default_factory=dict)  # of the trace
    path: Path | None = None  # of the file, once there is one
    is_discarded: bool = False  # the file is gone, if there was one, because the trace is elsewhere
    _owner: str = ""

    def begin(self, window: int, about: Mapping[str, Any]) -> None:
        """Have what this window records go there."""
        path = self.folder / new_name(".recording-", window, ".opscope")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(self.folder).free
            most = self.of.max_disk_bytes or int(free * _SHARE_OF_FREE)
            _native.begin_stream(window, os.fspath(path), most, json.dumps(about, default=str))
            self.path, self._owner = path, owner()
        except OSError as error:
            is_full = error.errno == errno.EFBIG and self._has_no_room()
            self._refuse(os.strerror(errno.ENOSPC) if is_full else error.strerror or str(error))
        except RuntimeError as error:  # another recording streams: what that one has, has all
            notice(f"{error}, so this recording is only in memory until it ends.")

    def _has_no_room(self) -> bool:
        """Half of what is free is less than a file has at least."""
        return (
            self.of.max_disk_bytes is None and shutil.disk_usage(self.folder).free < _LITTLE_BYTES
        )

    def _refuse(self, reason: str) -> None:
        if self.when_refused is None:
            raise UsageError(
                f"The recording cannot be written to {self.folder} while it runs: {reason}. "
                "Choose a writable folder with free space, or omit stream_to to record in "
                "memory."
            )
        self.when_refused(reason)

    def end(self, window: int) -> None:
        """The recording has ended: its file has all of it."""
        _native.end_stream(window)

    @property
    def is_drained(self) -> bool:
        """Part of it was moved out of its file: it is in segments."""
        if self.path is None:
            return False
        with suppress(OSError):
            return any(name.isdigit() for name in os.listdir(self.path.with_suffix(SEGMENTS)))
        return False

    @property
    def is_parents(self) -> bool:
        """This is a forked child of the process that records; it leaves the file to that."""
        return self.path is not None and self._owner != owner()

    def discard(self) -> None:
        """The trace is elsewhere: remove the file."""
        if self.is_discarded or self.is_parents:
            return
        self.is_discarded = True
        if self.path is None:
            return
        with suppress(OSError):
            self.path.unlink()
        remove_inside(self.path.parent, self.path.with_suffix(SEGMENTS).name)
        _native.discard_stream(os.fspath(self.path))


@dataclass
class Streams:
    """Where the recordings of a profile go, one after the other."""

    folder: Path  # of the trace; of all traces if each has a folder in it
    by_cycle: bool = False  # each has: ``cycle-1`` and so on
    max_disk_bytes: int | None = None  # of a file; None for half of what is free
    # a process waits for the end of this one, to write the trace if that does not
    keeper: bool = True
    # the profile writes each trace as it ends; otherwise another process does, also if the
    # recording ends well
    saves: bool = True
    rank: int | None = None  # as which traces are saved; None for that of the job
    process: int | None = None  # likewise, of one without a rank among several processes
    when_refused: Callable[[str], object] | None = None  # as of :class:`Stream`
    _begun: int = 0
    _owner: str = ""

    def next(self) -> Stream | None:
        """For the next recording; None in a forked child of the process that has the folder."""
        if self._begun and self._owner != owner():
            notice(
                f"the parent of this process records to {self.folder}, so this process records "
                "only in memory. Create a profile with its own folder."
            )
            return None
        self._owner = owner()
        if self.keeper:
            begin_keeper(self.folder)
        self._begun += 1
        folder = self.folder / f"cycle-{self._begun}" if self.by_cycle else self.folder
        # Who cannot record to a file at all learns it when that begins; later it would end the
        # program in the middle of its work.
        when_refused = self.when_refused or (None if self._begun == 1 else _in_memory_only)
        return Stream(folder, self, when_refused)


def _in_memory_only(reason: str) -> None:
    notice(f"the next recording has no file ({reason}), so it is only in memory until it ends.")


def about_recording(
    stream: Stream, recorded: RecordingOptions, throughout: RecordingOptions
) -> dict[str, Any]:
    """All that a trace needs beside what was recorded; see ``recovered.py``."""
    return {
        "recorded": asdict(recorded),
        "throughout": asdict(throughout),
        "prefixes": path_prefixes(),
        "rank": stream.of.rank,
        "process_number": stream.of.process,
        "is_left_to_others": not stream.of.saves,
        "job": job_of(stream.folder),
        "process": process_facts(),
        "metadata": dict(stream.metadata),
    }
