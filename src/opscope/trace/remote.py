"""Recordings that lie elsewhere: in an object store, or wherever PyArrow or fsspec read from.

They are copied to a folder for temporary files, which goes with the process. What says what is
there comes at once, with the rollups; the tables of a process, which are nearly all of it, only
when they are asked for.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from opscope.errors import OpscopeError, TraceFormatError
from opscope.progress import tell
from opscope.thread_pool import ThreadPool
from opscope.trace.address import address_of, path_of, shown_address
from opscope.trace.partition import part_of_folder
from opscope.trace.remote_folder import RemoteFolder
from opscope.trace.remote_store import RemoteStore, answering

_AT_ONCE = 16
"""Stores answer slowly and many at a time."""
_CHUNK_BYTES = 1 << 22


class _Copy:
    """What was copied of one address; the copy goes with this.

    Attributes:
        store: where it is from, and what was there.
        address: as it is shown.
        path: of the copy.
    """

    def __init__(self, store: RemoteStore) -> None:
        self.store, self.address = store, shown_address(store.address)
        self.folder = RemoteFolder()
        self.path = self.folder.path / store.called
        self.lock = threading.Lock()
        self._later: dict[Path, list[str]] = {}
        at_once = []
        for name in store.found:
            place = self.path / name
            if _is_for_later(place):
                self._later.setdefault(place.parent, []).append(name)
            else:
                at_once.append(name)
        self._bring(at_once)

    def complete(self, folder: Path) -> None:
        """Copy what is missing in one folder."""
        with self.lock:
            if folder in self._later:
                self._bring(self._later[folder])
                del self._later[folder]

    def _bring(self, names: Sequence[str]) -> None:
        given_up = threading.Event()
        pool = ThreadPool(max_workers=_AT_ONCE)
        try:
            for count, _ in enumerate(pool.map(partial(self._copy, given_up), names), start=1):
                tell(count, len(names))
        except BaseException:
            given_up.set()  # nobody waits for a store that answers slowly, or not at all
            raise
        finally:
            pool.close()
        if not self.store.is_as_found(names):
            for name in names:
                (self.path / name).unlink(missing_ok=True)
            raise TraceFormatError(
                f"{self.address} was written to after it was looked at. Load it again when nothing "
                "writes there."
            )

    def _copy(self, given_up: threading.Event, name: str) -> None:
        if given_up.is_set():
            return
        file, target = self.store.found[name], self.path / name
        # A forked child may copy the same, and so may a thread that was given up.
        unfinished = target.with_name(f".{os.getpid()}-{threading.get_ident()}.unfinished")
        try:
            with self.folder.writing(self.address):
                target.parent.mkdir(parents=True, exist_ok=True)
                copy = unfinished.open("wb")
            with copy, answering(self.store.address, name), self.store.open(name) as source:
                size = 0
                while not given_up.is_set() and (chunk := source.read(_CHUNK_BYTES)):
                    size += len(chunk)
                    with self.folder.writing(self.address):
                        copy.write(chunk)
                with self.folder.writing(self.address):
                    copy.close()  # which writes the rest
            if given_up.is_set():
                return
            if file.size_bytes not in (-1, size):
                shown = f"{self.address}/{name}" if name else self.address
                raise TraceFormatError(
                    f"{shown} has {size} bytes, and {file.size_bytes} were announced: it was "
                    "written meanwhile. Load it again when nothing writes there."
                )
            with self.folder.writing(self.address):
                unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)


_COPIES: list[_Copy] = []
"""Also of what is no longer there: whoever opened it may go on reading."""
_LOCK = threading.Lock()
_LOCKS: dict[str, threading.Lock] = {}
"""One for each address: one that does not answer holds up nobody who asks for another."""


def local_path(path: str | os.PathLike[str]) -> Path:
    """Where something is in the file system; what is elsewhere is copied first.

    Args:
        path: in the file system, or the address of something elsewhere: ``s3://bucket/job``.

    Raises:
        MissingDependencyError: what would read from there is not installed.
        TraceFormatError: nothing is there, or it cannot be read.
    """
    address = address_of(path)
    return path_of(path) if address is None else _copy_of(address).path


def complete(folder: Path) -> None:
    """Have all files of one process of a copy there; nothing of what was not copied.

    Raises:
        TraceFormatError: one cannot be read any more.
    """
    for copy in list(_COPIES):
        copy.complete(folder)


def as_asked(text: str) -> str:
    """A text for people in which copies are called what was asked for, which stays there."""
    for copy in list(_COPIES):
        text = text.replace(str(copy.path), copy.address)
    return text


@contextmanager
def asked_names() -> Iterator[None]:
    """Errors are about what was asked for, and not about its copy."""
    try:
        yield
    except OpscopeError as error:
        error.args = tuple(_said(one) if isinstance(one, str) else one for one in error.args)
        raise


def _said(text: str) -> str:
    for copy in list(_COPIES):
        if str(copy.path) in text and not copy.folder.path.is_dir():
            return (
                f"The copy of {copy.address} went with the process that made it. Load it again in "
                "this one."
            )
    return as_asked(text)


def _copy_of(address: str) -> _Copy:
    """The copy that was made already, if what is there is the same."""
    with _LOCK:
        lock = _LOCKS.setdefault(address, threading.Lock())
    with lock:
        store = RemoteStore(address)
        for copy in list(_COPIES):
            is_same = copy.store.address == address and copy.store.found == store.found
            if is_same and copy.folder.path.is_dir():  # not so in the child of a process that ended
                return copy
        made = _Copy(store)
        _COPIES.append(made)
        return made


def _in_forked_child() -> None:
    """The threads that held these are not in the child."""
    global _LOCK
    _LOCK = threading.Lock()
    _LOCKS.clear()
    for copy in _COPIES:
        copy.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)


def _is_for_later(place: Path) -> bool:
    """Whether a file is a table of a process, but for what it says of itself and what was added up
    of it."""
    of_part = any(part_of_folder(folder) is not None for folder in place.parents)
    light = place.name == "metadata.parquet" or place.name.startswith("rollup_")
    return of_part and place.suffix == ".parquet" and not light
