"""Temporary folders, removed with the object that owns them.

Those of killed processes are removed by the next process that makes one.
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
    """A new folder, which is removed with an object, or else at the end of the process.

    Those that killed processes left are removed.
    """
    place = Path(tempfile.gettempdir())
    for one in find(place, LeftKind.SCRATCH):
        with suppress(OSError), claimed(one) as is_there:  # or its process is there
            if is_there:
                remove(one)
    name = f".opscope-scratch-{os.getpid()}-{os.urandom(16).hex()}"
    held = held_folder(place / name, 0o700)
    weakref.finalize(owner, _remove, place / name, os.getpid(), held)
    return place / name


class Scratch:
    """A folder for what is computed once, by the first thread that needs it, and kept for a time.

    Every process has its own, also one that is forked: it writes nothing where its parent does, and
    waits for none of its parent's threads.
    """

    def __init__(self) -> None:
        self._by_process: dict[int, _OfProcess] = {}

    @property
    def lock(self) -> threading.RLock:
        """Of the process, for the thread that computes."""
        return self._own.lock

    @property
    def folder(self) -> Path:
        """It is made when it is first asked for, and removed with this object."""
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
    if os.getpid() == process:  # a forked child has the objects of its parent, too
        remove_inside(folder.parent, folder.name)
    held.close()
