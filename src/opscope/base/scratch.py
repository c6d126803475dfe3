"""Temporary folders, removed with the object that owns them.

The next process that makes one removes those of killed processes.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from contextlib import suppress
from pathlib import Path

from opscope.base.artefacts import LeftKind, claimed, find, held_folder, remove
from opscope.base.files import remove_inside
from opscope.base.private_files import OwnFile


def scratch_folder(owner: object) -> Path:
    """New folder, removed with ``owner`` or at the end of the process.

    Removes the folders that killed processes left.
    """
    place = Path(tempfile.gettempdir())
    for one in find(place, LeftKind.SCRATCH):
        with suppress(OSError), claimed(one) as is_there:  # an OSError: its process is alive
            if is_there:
                remove(one)
    name = f".opscope-scratch-{os.getpid()}-{os.urandom(16).hex()}"
    held = held_folder(place / name, 0o700)
    weakref.finalize(owner, _remove, place / name, os.getpid(), held)
    return place / name


class Scratch:
    """A folder for results that the first thread in need computes, and that are kept for a time.

    Each process has its own, also a forked child: it never writes to its parent's folder, nor waits
    for threads of its parent.
    """

    def __init__(self) -> None:
        self._by_process: dict[int, _OfProcess] = {}

    @property
    def lock(self) -> threading.RLock:
        """The process's lock, for the thread that computes."""
        return self._own.lock

    @property
    def folder(self) -> Path:
        """Folder, created on first access and removed with this object."""
        own = self._own
        with own.lock:
            if own.folder is None:
                own.folder = scratch_folder(own)
            return own.folder

    @property
    def _own(self) -> _OfProcess:
        return self._by_process.setdefault(os.getpid(), _OfProcess())


class _OfProcess:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.folder: Path | None = None


def _remove(folder: Path, process: int, held: OwnFile) -> None:
    if os.getpid() == process:  # a forked child has copies of its parent's objects
        remove_inside(folder.parent, folder.name)
    held.close()
