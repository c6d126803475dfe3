"""Recordings in object stores and other file systems that fsspec reads.

They are copied to a temporary folder that is removed with the process: manifests and rollups at
once, the tables of a process, which are nearly all data, only on use.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from opscope.base.address import address_of, path_of, shown_address
from opscope.base.progress import report_progress
from opscope.base.scratch import scratch_folder
from opscope.errors import MissingDependencyError, OpscopeError, TraceFormatError
from opscope.storage.partition import part_of_folder


class _Copy:
    """Local copy of one address.

    Attributes:
        address: the address as given; ``shown`` is without credentials.
        found: the store's information on every file, by its path below the address; that path is
            empty for the address itself.
        path: the local path.
    """

    def __init__(self, address: str) -> None:
        self.address, self.shown = address, shown_address(address)
        with self._store_errors():
            from fsspec.core import url_to_fs

            self._store, self._root = url_to_fs(address)
            self.found = self._list()
        name = PurePosixPath(shown_address(self._root)).name
        with self._write_errors():
            self.path = scratch_folder(self) / ("recording" if name in ("", "..") else name)
        self._deferred: dict[Path, list[str]] = {}
        for file in self.found:
            if _is_deferred(self.path / file):
                self._deferred.setdefault((self.path / file).parent, []).append(file)

    def begin(self) -> None:
        """Copy all files except the tables of processes."""
        deferred = {name for names in self._deferred.values() for name in names}
        self._fetch([name for name in self.found if name not in deferred])

    def complete(self, folder: Path) -> None:
        """Copy the missing files of one folder."""
        names = self._deferred.get(folder)
        if names is not None:
            self._fetch(names)
            self._deferred.pop(folder, None)

    def _fetch(self, names: list[str]) -> None:
        from fsspec.callbacks import Callback

        class _Progress(Callback):  # type: ignore[misc]
            def call(self, *arguments: Any, **options: Any) -> None:
                report_progress(self.value, self.size or len(names))

        with self._write_errors():
            # Another thread may copy the same files: each appears complete, also twice.
            unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=self.path.parent))
        targets = [str(unfinished / str(number)) for number in range(len(names))]
        with self._store_errors():
            sources = [self.found[name]["name"] for name in names]
            self._store.get(sources, targets, callback=_Progress())
            folders = {str(PurePosixPath(name).parent) for name in names}
            now = self._list(folders.pop() if len(folders) == 1 else ".")
        if any(now.get(name) != self.found[name] for name in names):
            raise TraceFormatError(
                f"{self.shown} changed during reading. Load it again when no process writes to it."
            )
        with self._write_errors():
            for name, target in zip(names, targets, strict=True):
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(target, self.path / name)

    def _list(self, folder: str = ".") -> dict[str, dict[str, Any]]:
        self._store.invalidate_cache()  # fsspec may have cached the list
        place = self._root if folder == "." else f"{self._root.rstrip('/')}/{folder}"
        entry = self._store.info(place)
        if entry["type"] == "file":
            return {"": entry}
        entries = self._store.find(place, detail=True)
        return {below(self._root, path): information for path, information in entries.items()}

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        """Re-raise errors of a store; their text may contain the address's password."""
        try:
            yield
        except (OpscopeError, MemoryError):
            raise
        except Exception as error:  # a store may raise any error
            has_secrets = self.shown != self.address
            source = error.__cause__ if isinstance(error, FileNotFoundError) else error
            lines = str(source or "nothing is there").strip().splitlines()[:1]
            reason = (
                type(source or error).__name__ if has_secrets or not lines else lines[0].rstrip(".")
            )
            cause = None if has_secrets else error
            if isinstance(error, ImportError):
                raise MissingDependencyError(
                    f"{self.shown} cannot be read: {reason}. Run: pip install fsspec, and its "
                    "package for that kind of store, such as s3fs or gcsfs."
                ) from cause
            raise TraceFormatError(
                f"{self.shown} cannot be read: {reason}. Check the address, and that this machine "
                "has access to it."
            ) from cause

    @contextmanager
    def _write_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TraceFormatError(
                f"The copy of {self.shown} cannot be written to {tempfile.gettempdir()}: "
                f"{error.strerror or error}. Set TMPDIR to a folder with free space."
            ) from error


_COPIES: list[_Copy] = []
"""Includes copies of data removed from the store: open traces may still read them."""


def local_path(path: str | os.PathLike[str]) -> Path:
    """The local path of a recording; a recording in a store is copied first.

    Raises:
        MissingDependencyError: the package for the store is not installed.
        TraceFormatError: the recording is missing or unreadable.
    """
    address = address_of(path)
    if address is None:
        return path_of(path)
    new = _Copy(address)
    for copy in _COPIES:
        if copy.address == address and copy.found == new.found and copy.path.exists():
            return copy.path
    new.begin()
    _COPIES.append(new)
    return new.path


def complete(folder: Path) -> None:
    """Copy the missing files of one process; no effect on a folder that is not a copy."""
    for copy in list(_COPIES):
        copy.complete(folder)


def with_addresses(text: str) -> str:
    """The text with addresses instead of the paths of copies."""
    for copy in list(_COPIES):
        text = text.replace(str(copy.path), copy.shown)
    return text


@contextmanager
def addresses_in_errors() -> Iterator[None]:
    """Make errors name the address instead of its copy."""
    try:
        yield
    except OpscopeError as error:
        error.args = tuple(
            with_addresses(text) if isinstance(text, str) else text for text in error.args
        )
        raise


def below(root: str, path: str) -> str:
    """The path of a file relative to ``root``."""
    name = path.lstrip("/").removeprefix(root.strip("/")).lstrip("/")
    if ".." in PurePosixPath(name).parts or not name:
        raise TraceFormatError(f"{root} holds a file called {path}, which is outside it.")
    return name


def _is_deferred(path: Path) -> bool:
    """Whether a file is a table of a process, except metadata and rollup."""
    of_part = any(part_of_folder(folder) is not None for folder in path.parents)
    is_small = path.name == "metadata.parquet" or path.name.startswith("rollup_")
    return of_part and path.suffix == ".parquet" and not is_small
