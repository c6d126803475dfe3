"""Folders for temporary files, which go with whoever needs them.

Those of processes that were killed are removed by the next process that makes one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows removes nothing that is open
    fcntl = None  # type: ignore[assignment]

_PREFIX = "opscope-scratch-"
_IN_USE = ".in-use"
"""A file that is locked for as long as the process lives that made the folder."""


def scratch_folder(owner: object) -> Path:
    """A new folder, which is removed with an object, or else at the end of the process.

    Those that killed processes left are removed.

    Raises:
        OSError: none can be made.
    """
    _remove_those_left()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    weakref.finalize(owner, _remove, folder, os.getpid(), _locked(folder))
    return folder


class Scratch:
    """A folder for what is computed once and kept for a time, by whichever thread asks first.

    Every process has its own, also one that is forked: it writes nothing where its parent does, and
    waits for none of its parent's threads.
    """

    def __init__(self) -> None:
        self._by_process: dict[int, _OfProcess] = {}

    @property
    def lock(self) -> threading.RLock:
        """Of the process, for whoever computes."""
        return self._own.lock

    @property
    def folder(self) -> Path:
        """It is made when it is first asked for, and removed with this object.

        Raises:
            OSError: it cannot be made.
        """
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


def _remove(folder: Path, process: int, lock: int | None) -> None:
    if os.getpid() == process:  # a forked child has the objects of its parent, too
        shutil.rmtree(folder, ignore_errors=True)
    if lock is not None:
        os.close(lock)


def _locked(folder: Path) -> int | None:
    """The lock of a folder, which ends with the process however that ends."""
    if fcntl is None:
        return None
    with suppress(OSError):  # some file systems have no locks; nothing is removed there
        file = os.open(folder / "made", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        os.rename(folder / "made", folder / _IN_USE)  # what is there is locked
        return file
    return None


def _remove_those_left() -> None:
    if fcntl is None:
        return
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.stat().st_uid != os.getuid():
                continue
            file = os.open(folder / _IN_USE, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(file)
