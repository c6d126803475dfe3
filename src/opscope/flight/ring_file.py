"""The file that a flight recorder's ring is in, so that a process that is killed leaves it.

Its name stands in the folder of the dumps. The file itself is in memory where that has room: a ring
is written over all the time, which a disk would be busy with.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from opscope import _native
from opscope.launch.keeper_process import IN_MEMORY, RING_PREFIX, in_memory_name
from opscope.notice import notice
from opscope.recording.keeper import begin_keeper, dismiss_keeper

_SHARE_OF_MEMORY = 0.25
"""Of what is free there; others need it, too: batches of a DataLoader go through it."""
_MARGIN_BYTES = 16 << 20
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
        self._process = os.getpid()
        self._link: Path | None = None
        self._file: Path | None = None
        self._told_bytes = 0
        self._has_failed = False

    def begin(self, window: int) -> None:
        """Have what is recorded be in it, from this window on, unless that is so already.

        Where there can be none, or another recording streams, the ring is in memory; this is asked
        again.
        """
        if not self._keeper or (self._link_is_there() and _native.ring_is_whole()):
            return
        self._remove()
        self._told_bytes = 0
        begin_keeper(self._directory)
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._link = self._new_name()
            self._file = self._place(self._link)
            _native.begin_stream(window, os.fspath(self._file), self._most_bytes, "", is_ring=True)
        except RuntimeError:  # another recording streams
            self._remove()
        except OSError as error:
            self._remove()
            if not self._has_failed:
                self._has_failed = True
                notice(
                    "what the flight recorder holds is in this process alone, and lost if it is "
                    f"killed: no file in {self._directory} ({error.strerror or error})"
                )

    def describe(self, facts: dict[str, Any], places: bytes) -> None:
        """What whoever makes a dump of it has to know.

        Args:
            facts: of the process, as for any dump.
            places: in generated code, a line for each file; those that were told stay.
        """
        if self._link is not None:
            new = places[self._told_bytes :].decode()
            if _native.describe_ring(json.dumps(facts), new):
                self._told_bytes = len(places)

    def end(self) -> None:
        """Nothing is in it any more."""
        self._remove()
        if self._keeper and self._process == os.getpid():
            dismiss_keeper(self._directory)

    def _link_is_there(self) -> bool:
        return self._link is not None and os.path.lexists(self._link)

    def _new_name(self) -> Path:
        while True:  # a process of the same number may have left some
            number = _native.new_number()
            link = self._directory / f"{RING_PREFIX}{self._process}-{number}"
            if not os.path.lexists(link):
                return link

    def _place(self, link: Path) -> Path:
        """Where the file goes, with its name in the folder of the dumps."""
        with contextlib.suppress(OSError):
            if shutil.disk_usage(IN_MEMORY).free * _SHARE_OF_MEMORY >= self._most_bytes:
                folder = os.fspath(self._directory)
                file = Path(IN_MEMORY, in_memory_name(link.name, folder) + os.urandom(4).hex())
                link.symlink_to(file)
                return file
        return link

    def _remove(self) -> None:
        files, self._file, self._link = (self._file, self._link), None, None
        for file in files:
            if file is not None and self._process == os.getpid():
                with contextlib.suppress(OSError):  # whoever removed the folder
                    os.unlink(file)


def remove_ring(link: Path) -> None:
    """The file and its name; no error where it is gone already."""
    with contextlib.suppress(OSError):
        if link.is_symlink():
            os.unlink(os.readlink(link))
    with contextlib.suppress(OSError):
        os.unlink(link)
