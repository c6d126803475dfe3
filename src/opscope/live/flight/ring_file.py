"""The file that a flight recorder's ring is in, so that a process that is killed leaves it.

The file is in memory where that has room, because a ring is written over all the time, which a disk
would be busy with; in the folder of the dumps is a note then, which names it. Else it is there.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

from opscope import _native
from opscope.base.artefacts import IN_MEMORY, new_name, owner
from opscope.base.locks import lock_shared
from opscope.base.notice import notice
from opscope.base.own_file import OwnFile
from opscope.launch.keeper_process import in_memory_name
from opscope.recording.streams.keeper import begin_keeper, dismiss_keeper

PLACES_NOTE = "places of a ring"
"""Of what is noted; a stream has notes of others, too."""
_SHARE_OF_MEMORY = 0.25
"""Of what is free there; others need it, too: batches of a DataLoader go through it."""
_SHARE_OF_DISK = 0.5
"""Likewise, where the file is in the folder of the dumps."""
_BETWEEN_TRIES_S = 10.0
_MARGIN_BYTES = 64 << 20
"""A ring outgrows its limit a little before it is trimmed, and has texts."""


class RingFile:
    """Of one flight recorder, from its start to its stop; by one thread at a time."""

    def __init__(self, directory: Path, max_bytes: int, keeper: bool) -> None:
        """Nothing is there yet.

        Args:
            directory: of the dumps.
            max_bytes: of the ring.
            keeper: whether there is to be one; without it the ring is in memory alone.
        """
        self._directory, self._keeper = directory, keeper
        self._most_bytes = max_bytes + max_bytes // 2 + _MARGIN_BYTES
        self._owner = owner()
        self._name: Path | None = None
        self._note: OwnFile | None = None
        self._file: Path | None = None
        self._told_bytes = 0
        self._begun = 0
        self._has_failed = False
        self._not_before_s = 0.0

    def begin(self, window: int) -> None:
        """Have what is recorded be in it, from this window on, unless that is so already.

        Where there can be none the ring is in memory, and what its file had before stays: while
        another recording streams, while another flight recorder of the process has one, or where
        there is no room. This is asked again.
        """
        if not self.wants_window():
            if self._name is not None:
                begin_keeper(self._directory)  # where there could be none before
            return
        begin_keeper(self._directory)
        name, note = self._directory / new_name(".ring-", _native.new_number()), None
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            file, most_bytes = self._place(name)
            if file != name:
                name = name.with_name(f"{name.name}.json")
                note = _write_note(name, file.name)
            _native.begin_stream(window, os.fspath(file), most_bytes, "", is_ring=True)
        except RuntimeError:  # another recording has begun to stream
            _discard(name, note)
        except OSError as error:
            _discard(name, note)
            self._has_none(error)
        else:
            self._remove()
            self._name, self._note, self._file = name, note, file
            self._told_bytes = 0
            self._begun += 1

    def wants_window(self) -> bool:
        """Whether there could be a file, or a better one, from the next window on."""
        if not self._keeper or time.monotonic() < self._not_before_s:
            return False
        path, is_ring, is_full = _native.stream_state()
        if not path:
            return True
        is_own = is_ring and self._file is not None and path == os.fspath(self._file)
        return is_own and (is_full or not self._is_named())

    def describe(self, facts: dict[str, Any], places: bytes) -> None:
        """What whoever makes a dump of it has to know.

        Args:
            facts: of the process, as for any dump.
            places: in generated code, a line for each file; those that were told stay.
        """
        if self._file is None or _native.stream_state()[0] != os.fspath(self._file):
            return
        if self._begun > 1:
            why = "its file began anew: another recording had it, or it had no room"
            facts = {**facts, "limited_by": why}
        new = places[self._told_bytes :].decode()
        note = json.dumps({PLACES_NOTE: new}) if new else ""
        if _native.describe_ring(json.dumps(facts), note):
            self._told_bytes = len(places)

    def end(self) -> None:
        """Nothing is in it any more."""
        self._remove()
        if self._keeper and self._owner == owner():
            dismiss_keeper(self._directory)

    def _has_none(self, error: OSError) -> None:
        self._not_before_s = time.monotonic() + _BETWEEN_TRIES_S
        if not self._has_failed:
            self._has_failed = True
            notice(
                "what the flight recorder holds is in this process alone, and lost if it is "
                f"killed: no file in {self._directory} ({error.strerror or error})"
            )

    def leave_to_parent(self) -> None:
        """In a forked child: it keeps nobody waiting for the end of its parent."""
        if self._note is not None:
            self._note.close()

    def _is_named(self) -> bool:
        return self._name is not None and os.path.lexists(self._name)

    def _place(self, name: Path) -> tuple[Path, int]:
        """Where the file goes, and how large it may be."""
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
    """Locked for those who see the note and not the file, as from another container."""
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
    with contextlib.suppress(OSError):  # whoever removed the folder
        os.unlink(file)
