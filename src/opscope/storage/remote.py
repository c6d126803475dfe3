"""Recordings in object stores, and wherever else fsspec reads from.

They are copied to a temporary folder that is removed with the process: manifests and rollups at
once; the tables of a process, which are nearly all of it, only when they are used.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from opscope.base.address import address_of, path_of, shown_address
from opscope.base.progress import tell
from opscope.base.scratch import scratch_folder
from opscope.errors import MissingDependencyError, OpscopeError, TraceFormatError
from opscope.storage.partition import part_of_folder


class _Copy:
    """Local copy of one address.

    Attributes:
        address: as it was given, and as it is shown.
        found: what the store said of every file when it was looked at, by its path below the
            address; that is empty for the address itself.
        path: of the copy.
    """

    def __init__(self, address: str) -> None:
        self.address, self.shown = address, shown_address(address)
        with self._answering():
            from fsspec.core import url_to_fs

            self._store, self._root = url_to_fs(address)
            self.found = self._look()
        name = PurePosixPath(shown_address(self._root)).name
        with self._writing():
            self.path = scratch_folder(self) / ("recording" if name in ("", "..") else name)
        self._later: dict[Path, list[str]] = {}
        for one in self.found:
            if _is_for_later(self.path / one):
                self._later.setdefault((self.path / one).parent, []).append(one)

    def begin(self) -> None:
        """Copy all but the tables of processes."""
        later = {name for names in self._later.values() for name in names}
        self._bring([name for name in self.found if name not in later])

    def complete(self, folder: Path) -> None:
        """Copy what is missing in one folder."""
        names = self._later.get(folder)
        if names is not None:
            self._bring(names)
            self._later.pop(folder, None)

    def _bring(self, names: list[str]) -> None:
        from fsspec.callbacks import Callback

        class _Progress(Callback):  # type: ignore[misc]
            def call(self, *arguments: Any, **options: Any) -> None:
                tell(self.value, self.size or len(names))

        with self._writing():
            # Another thread may copy the same: each file appears whole, and once more is no matter.
            unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=self.path.parent))
        targets = [str(unfinished / str(place)) for place in range(len(names))]
        with self._answering():
            sources = [self.found[name]["name"] for name in names]
            self._store.get(sources, targets, callback=_Progress())
            folders = {str(PurePosixPath(name).parent) for name in names}
            now = self._look(folders.pop() if len(folders) == 1 else ".")
        if any(now.get(name) != self.found[name] for name in names):
            raise TraceFormatError(
                f"{self.shown} changed during reading. Load it again when no process writes to it."
            )
        with self._writing():
            for name, target in zip(names, targets, strict=True):
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(target, self.path / name)

    def _look(self, folder: str = ".") -> dict[str, dict[str, Any]]:
        self._store.invalidate_cache()  # fsspec may remember what was there
        place = self._root if folder == "." else f"{self._root.rstrip('/')}/{folder}"
        there = self._store.info(place)
        if there["type"] == "file":
            return {"": there}
        found = self._store.find(place, detail=True)
        return {below(self._root, path): about for path, about in found.items()}

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Re-raise errors of a store, whose text may have the password of the address in it."""
        try:
            yield
        except (OpscopeError, MemoryError):
            raise
        except Exception as error:  # stores raise what they like
            has_secrets = self.shown != self.address
            why = error.__cause__ if isinstance(error, FileNotFoundError) else error
            lines = str(why or "nothing is there").strip().splitlines()[:1]
            reason = (
                type(why or error).__name__ if has_secrets or not lines else lines[0].rstrip(".")
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
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TraceFormatError(
                f"The copy of {self.shown} cannot be written to {tempfile.gettempdir()}: "
                f"{error.strerror or error}. Set TMPDIR to a folder with free space."
            ) from error


_COPIES: list[_Copy] = []
"""Also of what was removed from the store: open traces may still read from it."""


def local_path(path: str | os.PathLike[str]) -> Path:
    """The path of a recording in the file system; one in a store is copied first.

    Raises:
        MissingDependencyError: what would read from there is not installed.
        TraceFormatError: nothing is there, or it cannot be read.
    """
    address = address_of(path)
    if address is None:
        return path_of(path)
    made = _Copy(address)
    for copy in _COPIES:
        if copy.address == address and copy.found == made.found and copy.path.exists():
            return copy.path
    made.begin()
    _COPIES.append(made)
    return made.path


def complete(folder: Path) -> None:
    """Copy the missing files of one process; a folder that is no copy is left alone."""
    for copy in list(_COPIES):
        copy.complete(folder)


def with_addresses(text: str) -> str:
    """A text in which copies are called by their addresses."""
    for copy in list(_COPIES):
        text = text.replace(str(copy.path), copy.shown)
    return text


@contextmanager
def addresses_in_errors() -> Iterator[None]:
    """Have errors name the address, and not its copy."""
    try:
        yield
    except OpscopeError as error:
        error.args = tuple(
            with_addresses(one) if isinstance(one, str) else one for one in error.args
        )
        raise


def below(root: str, path: str) -> str:
    """The path of a file relative to what was asked for."""
    name = path.lstrip("/").removeprefix(root.strip("/")).lstrip("/")
    if ".." in PurePosixPath(name).parts or not name:
        raise TraceFormatError(f"{root} holds a file called {path}, which is not below it.")
    return name


def _is_for_later(place: Path) -> bool:
    """Whether a file is a table of a process, other than its metadata and rollup."""
    of_part = any(part_of_folder(folder) is not None for folder in place.parents)
    light = place.name == "metadata.parquet" or place.name.startswith("rollup_")
    return of_part and place.suffix == ".parquet" and not light
