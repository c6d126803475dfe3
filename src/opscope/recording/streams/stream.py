"""Streams: recordings in a file, so that they survive the death of their process."""

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

import opscope._native as _native
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
"""Ledger text for records that a stream dropped."""

_SHARE_OF_FREE = 0.5  # default limit of a recording: share of the free disk space
_LITTLE_BYTES = 4 << 20
"""With less free space, the limit is smaller than the step by which a file grows."""


@dataclass
class Stream:
    """The file of one recording."""

    folder: Path  # folder of the future trace
    of: Streams  # files of the whole profile
    # called with the reason if the file fails; records then stay in memory. None: raise
    when_refused: Callable[[str], object] | None
    metadata: Mapping[str, Any] = field(default_factory=dict)  # metadata of the trace
    path: Path | None = None  # path of the file, once it exists
    is_discarded: bool = False  # the file was removed, because the trace is elsewhere
    _owner: str = ""

    def begin(self, window: int, about: Mapping[str, Any]) -> None:
        """Write the records of this window to the file."""
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
        except RuntimeError as error:  # another recording streams, which includes these records
            notice(f"{error}, so this recording is only in memory until it ends.")

    def _has_no_room(self) -> bool:
        """Whether half of the free space is less than the smallest file."""
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
        """End the file: the recording has ended."""
        _native.end_stream(window)

    @property
    def is_drained(self) -> bool:
        """Whether part of the recording was moved from the file to segments."""
        if self.path is None:
            return False
        with suppress(OSError):
            return any(name.isdigit() for name in os.listdir(self.path.with_suffix(SEGMENTS)))
        return False

    @property
    def is_parents(self) -> bool:
        """Whether this is a forked child of the recorded process, which keeps the file."""
        return self.path is not None and self._owner != owner()

    def discard(self) -> None:
        """Remove the file: the trace is elsewhere."""
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
    """Files of a profile's recordings, one recording after the other."""

    folder: Path  # folder of the trace; with ``by_cycle``, of all traces
    by_cycle: bool = False  # each trace has a folder ``cycle-N``
    max_disk_bytes: int | None = None  # limit of a file; None for half of the free space
    keeper: bool = True  # start a watchdog process, which writes the trace if this one dies
    saves: bool = True  # the profile writes each trace; else another process always does
    rank: int | None = None  # rank of the traces; None for the rank in the job
    process: int | None = None  # process number of the traces, for processes without ranks
    when_refused: Callable[[str], object] | None = None  # see :class:`Stream`
    _begun: int = 0
    _owner: str = ""

    def next(self) -> Stream | None:
        """File for the next recording; None in a forked child of the folder's process."""
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
        # Only the first recording raises if it has no file; later, an error would end a working
        # program.
        when_refused = self.when_refused or (None if self._begun == 1 else _in_memory_only)
        return Stream(folder, self, when_refused)


def _in_memory_only(reason: str) -> None:
    notice(f"the next recording has no file ({reason}), so it is only in memory until it ends.")


def about_recording(
    stream: Stream, recorded: RecordingOptions, throughout: RecordingOptions
) -> dict[str, Any]:
    """Facts that a trace needs besides the records; see ``recovered.py``."""
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
