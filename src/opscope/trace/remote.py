"""Recordings that lie elsewhere: in an object store, or wherever PyArrow or fsspec read from.

They are copied to a folder for temporary files, which goes with the process. What says what is
there comes at once, with the rollups; the tables of a process, which are nearly all of it, only
when they are asked for.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from opscope.errors import MissingDependencyError, OpscopeError, TraceFormatError, UsageError
from opscope.progress import tell
from opscope.scratch import remove_of
from opscope.thread_pool import ThreadPool
from opscope.trace.partition import part_of_folder

# As a path in the file system has one slash where an address has two, either will do.
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/{1,3}(?!/)(.+)", re.DOTALL)
_LOCAL = "file"
_AT_ONCE = 16
"""Stores answer slowly and many at a time."""
_CHUNK_BYTES = 1 << 22


@dataclass(frozen=True)
class _File:
    """One that is there. ``size_bytes`` is -1 where the store does not say."""

    path: str
    size_bytes: int
    changed_ns: int


class _Copy:
    """What was copied of one address; the copy goes with this.

    Attributes:
        asked: the address, as it was given.
        address: the same, as it is shown.
        found: what was there, by the path below it; empty for the address itself.
        path: of the copy.
    """

    def __init__(self, address: str, store: Any, found: dict[str, _File], called: str) -> None:
        self.asked, self.address = address, shown_address(address)
        self.found, self._store = found, store
        folder = Path(tempfile.mkdtemp(prefix="opscope-remote-"))
        weakref.finalize(self, remove_of, folder, os.getpid())
        self.path = folder / called
        self._lock = threading.Lock()
        self._later: dict[Path, list[str]] = {}
        at_once = []
        for name in found:
            place = self.path / name
            if _is_for_later(place):
                self._later.setdefault(place.parent, []).append(name)
            else:
                at_once.append(name)
        self._bring(at_once)

    def complete(self, folder: Path) -> None:
        """Copy what is missing in one folder."""
        with self._lock:
            if folder in self._later:
                self._bring(self._later[folder])
                del self._later[folder]

    def _bring(self, names: Sequence[str]) -> None:
        with ThreadPool(max_workers=_AT_ONCE) as pool:
            for count, _ in enumerate(pool.map(self._copy, names), start=1):
                tell(count, len(names))

    def _copy(self, name: str) -> None:
        file, target = self.found[name], self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".{target.name}.unfinished")
        shown = f"{self.address}/{name}" if name else self.address
        try:
            with (
                _answering(shown),
                self._store.open_input_stream(file.path, None) as source,
                unfinished.open("wb") as copy,
            ):
                while chunk := source.read(_CHUNK_BYTES):
                    copy.write(chunk)
            size = unfinished.stat().st_size
            if file.size_bytes not in (-1, size):
                raise TraceFormatError(
                    f"{shown} has {size} bytes, and {file.size_bytes} were announced: it was "
                    "written meanwhile. Ask again when nothing writes there."
                )
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)


_COPIES: list[_Copy] = []
"""Also of what is no longer there: whoever opened it may go on reading."""
_LOCK = threading.Lock()


def local_path(path: str | os.PathLike[str]) -> Path:
    """Where something is in the file system; what is elsewhere is copied first.

    Args:
        path: in the file system, or the address of something elsewhere: ``s3://bucket/job``.

    Raises:
        MissingDependencyError: what would read from there is not installed.
        TraceFormatError: nothing is there, or it cannot be read.
    """
    text = os.fsdecode(path)
    address = _address_of(text)
    if address is None:
        return Path(text)
    scheme, rest = address
    if scheme.lower() == _LOCAL:
        return Path("/" + rest)
    return _copy_of(f"{scheme}://{rest}").path


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


def shown_address(address: str) -> str:
    """Without who reads there and their password, and what else is said of the store."""
    scheme, _, rest = address.partition("://")
    host, slash, path = rest.partition("?")[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def refuse_address(path: str | os.PathLike[str]) -> None:
    """See that something that is to be written to is in the file system.

    Raises:
        UsageError: it is elsewhere.
    """
    if _address_of(os.fsdecode(path)) is not None:
        raise UsageError(
            f"{os.fsdecode(path)} is not in the file system, and traces are written there alone. "
            "Write to a folder, and copy it with the tools of the store."
        )


def _address_of(text: str) -> tuple[str, str] | None:
    """Scheme and the rest; None for a path in the file system."""
    match = _ADDRESS.fullmatch(text)
    return None if match is None or os.path.lexists(text) else (match[1], match[2])


def _copy_of(address: str) -> _Copy:
    """The copy that was made already, if what is there is the same."""
    with _LOCK:
        store, root, found = _look(address)
        for copy in _COPIES:
            if copy.asked == address and copy.found == found:
                return copy
        called = PurePosixPath(root).name or "recording"
        _COPIES.append(_Copy(address, store, found, called))
        return _COPIES[-1]


def _look(address: str) -> tuple[Any, str, dict[str, _File]]:
    from pyarrow import fs

    shown = shown_address(address)
    with _answering(shown):
        store, root = _open(address)
        there = store.get_file_info(root)
        if there.type == fs.FileType.File:
            return store, root, {"": _file(there)}
        entries = []
        if there.type == fs.FileType.Directory:
            entries = store.get_file_info(fs.FileSelector(root, recursive=True))
    files = [one for one in entries if one.type == fs.FileType.File]
    if not files:
        raise TraceFormatError(f"There is no trace at {shown}. Check the address.")
    return store, root, {_below(root, one.path): _file(one) for one in files}


def _open(address: str) -> tuple[Any, str]:
    """What reads there, and the path as it knows it: PyArrow itself, or else fsspec."""
    import pyarrow as pa
    from pyarrow import fs

    shown = shown_address(address)
    try:
        store, path = fs.FileSystem.from_uri(address)
        return store, str(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise MissingDependencyError(
                f"{shown} cannot be read with what is installed ({_line(error)}). Run: pip "
                "install fsspec, and its package for that kind of store, such as s3fs or gcsfs."
            ) from error
    try:
        found, path = url_to_fs(address)
    except ImportError as error:
        raise MissingDependencyError(f"{shown} cannot be read: {_line(error)}.") from error
    return fs.PyFileSystem(fs.FSSpecHandler(found)), str(path)


def _file(info: Any) -> _File:
    size, changed = info.size, info.mtime_ns
    return _File(info.path, -1 if size is None else int(size), int(changed or 0))


def _below(root: str, path: str) -> str:
    """The path of a file relative to what was asked for.

    Raises:
        TraceFormatError: it would lie outside.
    """
    name = path.lstrip("/").removeprefix(root.strip("/")).lstrip("/")
    if ".." in PurePosixPath(name).parts or not name:
        raise TraceFormatError(f"{root} holds a file called {path}, which is not below it.")
    return name


def _is_for_later(place: Path) -> bool:
    """Whether a file is a table of a process, but for what it says of itself and what was added up
    of it."""
    of_part = any(part_of_folder(folder) is not None for folder in place.parents)
    light = place.name == "metadata.parquet" or place.name.startswith("rollup_")
    return of_part and place.suffix == ".parquet" and not light


@contextmanager
def _answering(address: str) -> Iterator[None]:
    """What a store says goes wrong, as an error about an address."""
    try:
        yield
    except OpscopeError:
        raise
    except (OSError, ValueError) as error:
        raise TraceFormatError(
            f"{address} cannot be read: {_line(error)}. Check the address, and that this machine "
            "has access to it."
        ) from error


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
