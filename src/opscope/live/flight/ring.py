"""The ring of a flight recorder: windows that overlap, in a file that outlives its process.

The file is in ``/dev/shm`` if that has space, because overwriting the ring all the time would keep
a disk busy; a note in the folder of the dumps then contains its name. Otherwise the file is in the
folder of the dumps.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import opscope._native as _native
from opscope.base.artefacts import IN_MEMORY, new_name, owner
from opscope.base.locks import lock_shared
from opscope.base.memory_limit import default_growth_bytes
from opscope.base.notice import notice
from opscope.base.private_files import OwnFile
from opscope.errors import LifecycleError
from opscope.launch.keeper_process import in_memory_name
from opscope.recording.sources import RecordingOptions, native_wants
from opscope.recording.streams.keeper import begin_keeper, dismiss_keepers

PLACES_NOTE = "places of a ring"
"""Key of the ring's notes in a stream."""
_SHARE_OF_MEMORY = 0.25
"""Largest share of the free space in ``/dev/shm``, which a DataLoader's batches need too."""
_SHARE_OF_DISK = 0.5
"""Largest share of the free space in the folder of the dumps."""
_RETRY_DELAY_S = 10.0
_MARGIN_BYTES = 64 << 20
"""Space above the limit, because old windows are dropped late, and for texts."""


class RingFile:
    """File of one flight recorder, from its start to its stop; not thread-safe."""

    def __init__(self, directory: Path, max_bytes: int, keeper: bool) -> None:
        self._directory, self._keeper = directory, keeper
        self._most_bytes = max_bytes + max_bytes // 2 + _MARGIN_BYTES
        self._owner = owner()
        self._name: Path | None = None
        self._note: OwnFile | None = None
        self._file: Path | None = None
        self._described_bytes = 0
        self._file_count = 0
        self._has_failed = False
        self._not_before_s = 0.0

    def begin(self, window: int) -> None:
        """Record into the file from this window on, if it does not yet.

        The ring stays in memory if another recording of the process streams, or without space. An
        old file keeps its content. Each later window tries again.
        """
        if not self.wants_window():
            if self._name is not None:
                begin_keeper(self._directory)  # an earlier start may have failed
            return
        begin_keeper(self._directory)
        name, note = self._directory / new_name(".ring-", _native.new_number()), None
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            file, most_bytes = self._choose_file(name)
            if file != name:
                name = name.with_name(f"{name.name}.json")
                note = _write_note(name, file.name)
            _native.begin_stream(window, os.fspath(file), most_bytes, "", is_ring=True)
        except RuntimeError:  # another recording streams
            _discard(name, note)
        except OSError as error:
            _discard(name, note)
            self._report_no_file(error)
        else:
            self._remove()
            self._name, self._note, self._file = name, note, file
            self._described_bytes = 0
            self._file_count += 1

    def wants_window(self) -> bool:
        """Whether the next window can have a file, or needs a new one."""
        if not self._keeper or time.monotonic() < self._not_before_s:
            return False
        path, is_ring, is_full = _native.stream_state()
        if not path:
            return True
        is_own = is_ring and self._file is not None and path == os.fspath(self._file)
        return is_own and (is_full or not self._is_named())

    def describe(self, facts: dict[str, Any], places: bytes) -> None:
        """Write the facts for a dump, and the new part of ``places``, which only grows."""
        if self._file is None or _native.stream_state()[0] != os.fspath(self._file):
            return
        if self._file_count > 1:
            why = "its file was restarted: another recording used it, or it was full"
            facts = {**facts, "limited_by": why}
        added = places[self._described_bytes :].decode()
        note = json.dumps({PLACES_NOTE: added}) if added else ""
        if _native.describe_ring(json.dumps(facts), note):
            self._described_bytes = len(places)

    def end(self) -> None:
        """Remove the file."""
        self._remove()
        if self._keeper and self._owner == owner():
            dismiss_keepers(self._directory)

    def _report_no_file(self, error: OSError) -> None:
        self._not_before_s = time.monotonic() + _RETRY_DELAY_S
        if not self._has_failed:
            self._has_failed = True
            notice(
                "the flight recorder's data is only in this process, and is lost if it is "
                f"killed: no file in {self._directory} ({error.strerror or error})"
            )

    def leave_to_parent(self) -> None:
        """Close the copy of the locked note, in a forked child."""
        if self._note is not None:
            self._note.close()

    def _is_named(self) -> bool:
        return self._name is not None and os.path.lexists(self._name)

    def _choose_file(self, name: Path) -> tuple[Path, int]:
        with contextlib.suppress(OSError):
            if shutil.disk_usage(IN_MEMORY).free * _SHARE_OF_MEMORY >= self._most_bytes:
                folder = os.fspath(self._directory)
                return IN_MEMORY / in_memory_name(name.name, folder), self._most_bytes
        free_bytes = shutil.disk_usage(self._directory).free
        return name, min(self._most_bytes, int(free_bytes * _SHARE_OF_DISK))

    def _remove(self) -> None:
        file, name, note = self._file, self._name, self._note
        self._file = self._name = self._note = None
        if file is not None and name is not None and self._owner == owner():
            _unlink(file)
            _discard(name, note)
            _native.discard_stream(os.fspath(file))


def _write_note(name: Path, file: str) -> OwnFile:
    """Write a locked note, for processes of other containers, which cannot see the file."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    note = OwnFile(os.open(name, flags, 0o600))
    lock_shared(note.descriptor)
    os.write(note.descriptor, file.encode())
    return note


def _discard(name: Path, note: OwnFile | None) -> None:
    _unlink(name)
    if note is not None:
        note.close()


def _unlink(file: Path) -> None:
    with contextlib.suppress(OSError):  # the folder was removed
        os.unlink(file)


_MOST_TEXT_BYTES = 64 << 20
"""Most bytes of names of functions and modules; these are freed only when no window is open."""


class RingWindows:
    """Opens windows for the native ring, which drops old ones."""

    def __init__(self, options: RecordingOptions, watch: _native.Watch, file: RingFile) -> None:
        self._wants = native_wants(options)
        self._collects = self._wants
        self._watch, self._file = watch, file
        # The last limit, for the case that the ring's thread cannot drop windows in time.
        self._most_growth_bytes = default_growth_bytes()
        self.restarts = 0

    def open(self) -> None:
        """Open one more window."""
        statistics = _native.statistics()
        # With another recording's windows open, a restart would not free texts.
        is_alone = statistics["windows"] <= len(self._watch.windows)
        if statistics["text_bytes"] > _MOST_TEXT_BYTES and is_alone:
            self._restart()
        reserved = _native.reserve_window()
        self._file.begin(reserved)
        try:
            window = _native.open_window(
                self._wants,
                True,
                reserved,
                collects=self._collects,
                most_growth_bytes=self._most_growth_bytes,
            )
        except RuntimeError as error:
            raise LifecycleError(
                f"The flight recorder could not start: {error}. Stop the other profiler in this "
                "process, then try again."
            ) from error
        self._watch.add_window(window)

    def collect(self, wants: int) -> None:
        """Record from now on only ``wants``, the recorder's bits."""
        self._collects = self._wants & wants
        _native.collect(self._watch.windows, self._collects)

    def close(self) -> None:
        """Close all windows, and discard their records."""
        for window in self._watch.take_windows():
            _native.discard_window(window)

    def _restart(self) -> None:
        """Discard all windows, which frees texts: a program may make new functions for ever."""
        self.close()
        self.restarts += 1
