"""Temporary folders, removed with the object that owns them."""

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

    The call also removes the folders of killed processes.
    """
    parent = Path(tempfile.gettempdir())
    for artefact in find(parent, LeftKind.SCRATCH):
        with suppress(OSError), claimed(artefact) as exists:  # OSError: its process is alive
            if exists:
                remove(artefact)
    name = f".opscope-scratch-{os.getpid()}-{os.urandom(16).hex()}"
    lock_file = held_folder(parent / name, 0o700)
    weakref.finalize(owner, _remove, parent / name, os.getpid(), lock_file)
    return parent / name


class Scratch:
    """A folder for results that the first thread computes and later threads reuse.

    Each process has its own folder and lock, also a forked child: it never writes to its parent's
    folder or waits for its parent's threads.
    """

    def __init__(self) -> None:
        self._by_process: dict[int, _ProcessScratch] = {}

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
    def _own(self) -> _ProcessScratch:
        return self._by_process.setdefault(os.getpid(), _ProcessScratch())


class _ProcessScratch:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.folder: Path | None = None


def _remove(folder: Path, process: int, lock_file: OwnFile) -> None:
    if os.getpid() == process:  # a forked child has copies of its parent's objects
        remove_inside(folder.parent, folder.name)
    lock_file.close()
