"""What reads elsewhere: PyArrow, or else fsspec; and what it says goes wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from opscope.errors import MissingDependencyError, OpscopeError, TraceFormatError
from opscope.trace.address import has_secrets, shown_address, without_secrets

_GOOGLE = ("gs://", "gcs://")
_GOOGLE_PATIENCE = "retry_limit_seconds"
_PATIENCE_S = 60
"""By itself, PyArrow asks Google's store for a quarter of an hour before it says what is wrong."""

_VERSION = (
    "mtime",
    "created",
    "updated",
    "modified",
    "last_modified",
    "LastModified",
    "ETag",
    "etag",
)


@dataclass(frozen=True)
class RemoteFile:
    """One that is there. ``size_bytes`` is -1 where the store does not say.

    ``version`` is whatever the store says of when, or as what, it was written.
    """

    path: str
    size_bytes: int
    version: str


class RemoteStore:
    """What is at an address, as it was when this was made.

    Attributes:
        address: as it was given.
        called: the last name of its path.
        found: every file, by its path below the address; empty for the address itself.

    Raises:
        MissingDependencyError: what would read from there is not installed.
        TraceFormatError: nothing is there, or it cannot be read.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        with answering(address):
            self._store, self._root = _open(address)
        path = self._root.partition("?")[0] if address.startswith("http") else self._root
        name = PurePosixPath(path).name
        self.called = "recording" if name in ("", "..") else name
        self.found = self._look()
        if not self.found:
            raise TraceFormatError(
                f"There is no trace at {shown_address(address)}. Check the address."
            )

    def is_as_found(self, names: Sequence[str]) -> bool:
        """Whether these files are still what they were when this was made.

        They are listed as they were then: stores round times otherwise when asked for one file.
        """
        folders = {str(PurePosixPath(name).parent) for name in names}
        now = self._look(folders.pop() if len(folders) == 1 else ".")
        return all(now.get(name) == self.found[name] for name in names)

    def open(self, name: str) -> Any:
        """A stream of the bytes of a file."""
        return self._store.open_input_stream(self.found[name].path, None)

    def _look(self, folder: str = ".") -> dict[str, RemoteFile]:
        from pyarrow import fs

        with answering(self.address):
            behind = self._behind()
            if behind is not None:
                behind.invalidate_cache()  # fsspec may remember what was there
            place = self._root if folder == "." else f"{self._root.rstrip('/')}/{folder}"
            there = self._store.get_file_info(place)
            if there.type == fs.FileType.File:
                return {"": _file(there)}
            if there.type == fs.FileType.NotFound:
                self._see_why_not()
                return {}
            if behind is not None:
                files = [_detailed(*one) for one in behind.find(place, detail=True).items()]
            else:
                entries = self._store.get_file_info(fs.FileSelector(place, recursive=True))
                files = [_file(one) for one in entries if one.type == fs.FileType.File]
        return {below(self._root, one.path): one for one in files}

    def _behind(self) -> Any:
        """The file system of fsspec, if one reads there."""
        return getattr(getattr(self._store, "handler", None), "fs", None)

    def _see_why_not(self) -> None:
        """To fsspec, a server that does not answer, or refuses, has no such file."""
        behind = self._behind()
        if behind is None:
            return
        try:
            behind.info(self._root)
        except FileNotFoundError as error:
            cause = error.__cause__
            is_absent = isinstance(cause, FileNotFoundError) or getattr(cause, "status", 0) == 404
            if cause is not None and not is_absent:
                raise


@contextmanager
def answering(address: str, below_it: str = "") -> Iterator[None]:
    """What a store says goes wrong, as an error about an address.

    What it raised is not kept beside that where the address has a password, which may be in it.
    """
    try:
        yield
    except (OpscopeError, MemoryError):
        raise
    except Exception as error:  # stores raise what they like
        shown = f"{shown_address(address)}/{below_it}" if below_it else shown_address(address)
        kind = MissingDependencyError if isinstance(error, ImportError) else TraceFormatError
        said = f"{shown} cannot be read: {without_secrets(_reason(error), address)}."
        if kind is TraceFormatError:
            said += " Check the address, and that this machine has access to it."
        raise kind(said) from (None if has_secrets(address) else error)


def below(root: str, path: str) -> str:
    """The path of a file relative to what was asked for.

    Raises:
        TraceFormatError: it would lie outside.
    """
    name = path.lstrip("/").removeprefix(root.strip("/")).lstrip("/")
    if ".." in PurePosixPath(name).parts or not name:
        raise TraceFormatError(f"{root} holds a file called {path}, which is not below it.")
    return name


def _open(address: str) -> tuple[Any, str]:
    """What reads there, and the path as it knows it."""
    import pyarrow as pa
    from pyarrow import fs

    asked = address
    if address.startswith(_GOOGLE) and _GOOGLE_PATIENCE not in address:
        asked += f"{'&' if '?' in address else '?'}{_GOOGLE_PATIENCE}={_PATIENCE_S}"
    try:
        store, path = fs.FileSystem.from_uri(asked)
        return store, str(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise MissingDependencyError(
                f"{shown_address(address)} cannot be read with what is installed "
                f"({without_secrets(_line(error), address)}). Run: pip install fsspec, and its "
                "package for that kind of store, such as s3fs or gcsfs."
            ) from (None if has_secrets(address) else error)
    found, path = url_to_fs(address)
    return fs.PyFileSystem(fs.FSSpecHandler(found)), str(path)


def _file(info: Any) -> RemoteFile:
    size, changed = info.size, info.mtime_ns
    return RemoteFile(info.path, -1 if size is None else int(size), str(changed or ""))


def _detailed(path: str, about: Mapping[str, Any]) -> RemoteFile:
    """A file as fsspec's file systems describe it, each in its own words."""
    size = about.get("size")
    version = [str(about[word]) for word in _VERSION if about.get(word)]
    return RemoteFile(path, -1 if size is None else int(size), " ".join(version))


def _reason(error: BaseException) -> str:
    """Why; where all that fsspec says is the address, what lies behind that."""
    behind = error.__cause__
    return _line(behind if isinstance(error, FileNotFoundError) and behind else error)


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
