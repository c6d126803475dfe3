"""Artefacts of processes in a folder: search, liveness, claims and removal.

A name contains the process id, for readers, and a random part that identifies the process: two
containers may have processes with the same id. Only a lock shows whether the process is alive
(``locks``). ``live/recovery.py`` decides what to make of each kind. This module imports only its
neighbours, because the watchdog runs it by its path.
"""

from __future__ import annotations

import enum
import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from opscope.base.files import (
        AnyPath,
        is_folder_inside,
        open_inside,
        read_inside,
        remove_inside,
    )
    from opscope.base.locks import TRIES, Holder, lock_shared, try_lock, unlock, wait_for_claimant
    from opscope.base.private_files import OwnFile
else:  # the watchdog's module path has this folder
    from files import AnyPath, is_folder_inside, open_inside, read_inside, remove_inside
    from locks import TRIES, Holder, lock_shared, try_lock, unlock, wait_for_claimant

NOTE = ".json"  # suffix of a note's name
LOCK = ".in-use"  # name of the lock file in an artefact that is a folder
SEGMENTS = ".segments"
"""Suffix of the folder with the segments moved out of a recording's file; replaces its suffix."""
_PROCESS_AND_OWNER = r"(?P<process>\d+)(?:-(?P<owner>[0-9a-f]{16}))?-(?P<number>\d+)"

_PART = r"\.(?:rank=\d+|process=\d+|job)\.(?P<process>\d+)-(?P<owner>[0-9a-f]{32})"
IN_MEMORY = Path("/dev/shm")
"""Folder of ring files; the dump folder then has a note that names the file."""
_MAX_NOTE_BYTES = 1000


class LeftKind(enum.Enum):
    """Kind of an artefact: name pattern and, for folders, the lock file inside; empty for files."""

    STREAM = rf"\.recording-{_PROCESS_AND_OWNER}\.opscope", ""
    RING = rf"\.ring-{_PROCESS_AND_OWNER}(?:-[0-9a-f]{{8}}|\.json)?", ""
    SPOOL = rf"\.dump-{_PROCESS_AND_OWNER}", LOCK
    BEGUN = rf"{_PART}", LOCK
    REPLACED = rf"{_PART}\.earlier", LOCK
    EXPORT = r"\..*\.(?P<process>\d+)-(?P<owner>[0-9a-f]{32})\.part", ""
    SEGMENTS = rf"\.recording-{_PROCESS_AND_OWNER}\.segments", "lock"
    SCRATCH = r"\.opscope-scratch-(?P<process>\d+)-(?P<owner>[0-9a-f]{32})", LOCK

    @property
    def lock(self) -> str:
        """Name of the lock file inside; empty if the artefact is a file."""
        return self.value[1]

    def match(self, name: str) -> re.Match[str] | None:
        """Match of a name of this kind; None for other names."""
        return re.fullmatch(self.value[0], name)


PARTS = LeftKind.BEGUN, LeftKind.EXPORT, LeftKind.SEGMENTS
"""Kinds that are useless once their writer is gone."""


class InUseError(OSError):
    """The artefact belongs to a running process."""

    def __init__(self, artefact: Artefact, holder: Holder) -> None:
        super().__init__(f"{artefact.path} belongs to {holder.value}")
        self.holder = holder


@dataclass(frozen=True)
class Artefact:
    """A file or folder that a process of opscope writes or left.

    Attributes:
        folder: parent folder; may be a link.
        process: process id on its machine or in its container.
        owner: random part of the process's names.
        number: number among the artefacts of its process.
    """

    kind: LeftKind
    folder: Path
    name: str
    process: int
    owner: str
    number: int

    @property
    def path(self) -> Path:
        """Full path."""
        return self.folder / self.name


_owner = ""


def owner() -> str:
    """Random part of the names of all artefacts of this process."""
    global _owner
    if not _owner:
        _owner = os.urandom(8).hex()
    return _owner


def _forget_owner() -> None:
    global _owner
    _owner = ""


os.register_at_fork(after_in_child=_forget_owner)


def new_name(prefix: str, number: int, suffix: str = "") -> str:
    """Name of an artefact of this process: ``.ring-PID-RANDOM-NUMBER``."""
    return f"{prefix}{os.getpid()}-{owner()}-{number}{suffix}"


def at(path: Path) -> Artefact | None:
    """Artefact of this path; None if the name is not an artefact's."""
    for kind in LeftKind:
        if match := kind.match(path.name):
            parts = match.groupdict()
            number = int(parts.get("number") or 0)
            owner_part = parts.get("owner") or ""
            return Artefact(kind, path.parent, path.name, int(parts["process"]), owner_part, number)
    return None


def find(folder: AnyPath, *kinds: LeftKind, owned_by: str | None = None) -> list[Artefact]:
    """Artefacts of these kinds in a folder, oldest first, without links."""
    entries = []
    for entry in os.scandir(folder):
        artefact = at(Path(folder, entry.name)) if entry.name.startswith(".") else None
        if artefact is None or artefact.kind not in kinds or owned_by not in (None, artefact.owner):
            continue
        is_right = entry.is_dir if artefact.kind.lock else entry.is_file
        if is_right(follow_symlinks=False) and not _has_recording(artefact):
            with suppress(FileNotFoundError):
                entries.append((entry.stat().st_mtime_ns, artefact.number, artefact.name, artefact))
    return [artefact for _, _, _, artefact in sorted(entries, key=lambda each: each[:3])]


def _has_recording(artefact: Artefact) -> bool:
    """Whether the artefact is the segments of a recording that is still beside them."""
    return artefact.kind is LeftKind.SEGMENTS and artefact.path.with_suffix(".opscope").exists()


def below(folder: AnyPath, *kinds: LeftKind, owned_by: str | None = None) -> Iterator[Artefact]:
    """Artefacts in ``folder`` and in its ``cycle-N`` folders."""
    places = [folder := Path(folder)]
    with suppress(OSError):
        names = sorted(name for name in os.listdir(folder) if re.fullmatch(r"cycle-\d{1,9}", name))
        places += [folder / name for name in names if is_folder_inside(folder, name)]
    for place in places:
        with suppress(OSError):
            yield from find(place, *kinds, owned_by=owned_by)


def is_free(artefact: Artefact) -> bool:
    """Whether the artefact can be claimed now."""
    try:
        with claimed(artefact, tries=1) as exists:
            return exists
    except OSError:
        return False


def is_alive(artefact: Artefact) -> bool:
    """Whether the recording process is alive, on any machine; False if unknown."""
    try:
        with claimed(artefact, tries=1):
            return False
    except InUseError as error:
        return error.holder is Holder.RECORDER
    except OSError:
        return False


@contextmanager
def claimed(artefact: Artefact, wait: bool = False, tries: int = TRIES) -> Iterator[bool]:
    """Claim an artefact for this process; yields False if it is gone.

    Args:
        artefact: artefact to make a trace of, or to remove.
        wait: wait for another claimant to finish.
        tries: attempts to lock; 1 for a check only.

    Raises:
        InUseError: a running process owns it.
        NoLocksError: its file system has no locks.
        OSError: the file is not opscope's.
    """
    try:
        artefact = in_memory(artefact) or artefact
        inside = os.path.join(artefact.name, artefact.kind.lock).rstrip("/")
        file = open_inside(artefact.folder, inside, os.O_RDWR)
    except FileNotFoundError:
        yield False
        return
    holder = Holder.CLAIMANT
    try:
        while (holder := try_lock(file, tries)) is Holder.CLAIMANT and wait:
            wait_for_claimant(file)
        if holder is Holder.OURS and _is_mapped(artefact):
            holder = Holder.RECORDER
        if holder is not Holder.OURS:
            raise InUseError(artefact, holder)
        yield os.fstat(file).st_nlink > 0
    finally:
        if holder is Holder.OURS:
            unlock(file)  # a child forked meanwhile shares the lock
        os.close(file)


@contextmanager
def shared(artefact: Artefact) -> Iterator[bool]:
    """Share the lock of a recording, also after its recorder ends; waits for a claimant.

    Yields False if the file is gone or cannot be locked.
    """
    try:
        file = open_inside(artefact.folder, artefact.name, os.O_RDWR)
    except FileNotFoundError:
        yield False
        return
    try:
        yield lock_shared(file) and os.fstat(file).st_nlink > 0
    finally:
        os.close(file)


def in_memory(note: Artefact) -> Artefact | None:
    """Ring file that a note in the folder names; None if there is no such file."""
    if note.kind is not LeftKind.RING or not note.name.endswith(NOTE):
        return None
    name = read_inside(note.folder, note.name, _MAX_NOTE_BYTES).decode(errors="replace").strip()
    ring = at(IN_MEMORY / name)
    if ring is None or os.sep in name or name.rpartition("-")[0] != note.name.removesuffix(NOTE):
        raise PermissionError(errno.EPERM, "it is not a ring file", os.fspath(note.path))
    try:
        status = os.lstat(ring.path)
    except FileNotFoundError:
        return None
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) != 0o600:
        raise PermissionError(errno.EPERM, "other users can access it", os.fspath(ring.path))
    return ring


def _is_mapped(file: Artefact) -> bool:
    """Whether the process still maps the file; only for processes of this container.

    A program that closes all files releases its locks until the file grows again.
    """
    with suppress(OSError), open(f"/proc/{file.process}/maps", errors="replace") as maps:
        return any(file.owner in line and line.rstrip().endswith(f"/{file.name}") for line in maps)
    return False


def remove(artefact: Artefact) -> None:
    """Remove a ``claimed`` artefact and the files that belong to it."""
    if ring := in_memory(artefact):
        remove_inside(ring.folder, ring.name)
    remove_inside(artefact.folder, artefact.name)
    if artefact.kind is LeftKind.STREAM:
        remove_inside(artefact.folder, Path(artefact.name).with_suffix(SEGMENTS).name)


def remove_parts(folder: Path) -> None:
    """Remove unfinished traces of processes that are gone."""
    for artefact in below(folder, *PARTS):
        with suppress(OSError), claimed(artefact) as exists:  # or another process writes it
            if exists:
                remove(artefact)


def _locked(folder: Path) -> OwnFile:
    inside = f"{folder.name}/{LOCK}"
    file = OwnFile(open_inside(folder.parent, inside, os.O_RDWR | os.O_CREAT))
    lock_shared(file.descriptor)
    if os.fstat(file.descriptor).st_nlink:
        return file
    file.close()
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(folder))


def _release(file: OwnFile) -> None:
    if file.is_ours():
        unlock(file.descriptor)  # a child forked meanwhile shares the lock
    file.close()


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Hold the lock of an artefact's folder while this process writes to it.

    Raises:
        FileNotFoundError: another process removed it as abandoned.
        OSError: it cannot be locked.
    """
    file = _locked(folder)
    try:
        yield
    finally:
        _release(file)


def held_folder(path: Path, mode: int = 0o777) -> OwnFile:
    """Create a folder that this process owns as long as the returned file is open."""
    while True:
        path.mkdir(mode)
        with suppress(FileNotFoundError):  # another process removed it before it was locked
            return _locked(path)


@contextmanager
def locked_folder(path: Path, mode: int = 0o777) -> Iterator[Path]:
    """New folder that this process owns; removed afterwards if it is empty."""
    try:
        file = held_folder(path, mode)
        try:
            yield path
        finally:
            _release(file)
    finally:
        remove_inside(path.parent, f"{path.name}/{LOCK}")
        with suppress(OSError):
            path.rmdir()


_MAX_NAME_LENGTH = 100


def unfinished_name(name: str, suffix: str = "") -> str:
    """Hidden, unique name of a file that will be renamed to ``name``."""
    return f".{name[:_MAX_NAME_LENGTH]}.{os.getpid()}-{os.urandom(16).hex()}{suffix}"
