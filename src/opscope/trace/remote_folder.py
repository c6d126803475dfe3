"""Folders for copies of what lies elsewhere; those of processes that were killed are removed."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from opscope.errors import TraceFormatError
from opscope.scratch import remove_of

try:
    import fcntl
except ImportError:  # Windows removes nothing that is open
    fcntl = None  # type: ignore[assignment]

_PREFIX = "opscope-remote-"
_IN_USE = ".in-use"
"""A file that is locked for as long as the process lives that made the folder."""


class RemoteFolder:
    """One for temporary files, which goes with this object, or else with the process.

    Attributes:
        path: of it.

    Raises:
        TraceFormatError: none can be made.
    """

    def __init__(self) -> None:
        _remove_those_left()
        with self.writing(""):
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        weakref.finalize(self, _remove, self.path, os.getpid(), _locked(self.path))

    @contextmanager
    def writing(self, address: str) -> Iterator[None]:
        """What this machine says goes wrong with the copy of an address.

        Raises:
            TraceFormatError: it cannot be written.
        """
        try:
            yield
        except OSError as error:
            what = f"The copy of {address}" if address else "A copy of what lies elsewhere"
            raise TraceFormatError(
                f"{what} cannot be written to {tempfile.gettempdir()}: {error.strerror or error}. "
                "Set TMPDIR to a folder with room."
            ) from error


def _remove(folder: Path, process: int, lock: int | None) -> None:
    remove_of(folder, process)
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
                remove_of(folder, os.getpid())
            finally:
                os.close(file)
