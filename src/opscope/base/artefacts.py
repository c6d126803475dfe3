"""Artefacts of processes in a folder: finding, liveness, claims and removal.

A name contains the process id, for readers, and a random part that identifies the process: two
containers may have processes with the same id. Only a lock says whether the process is alive
(``locks``). ``live/recovery.py`` says what is made of each kind. This imports only its neighbours,
because the watchdog is run by its path.
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
else:  # the watchdog's own path has this folder
    from files import AnyPath, is_folder_inside, open_inside, read_inside, remove_inside
    from locks import TRIES, Holder, lock_shared, try_lock, unlock, wait_for_claimant

NOTE = ".json"
"""Suffix of a note's name."""
LOCK = ".in-use"
"""Name of the lock file in an artefact that is a folder."""
SEGMENTS = ".segments"
"""Suffix of the folder with the segments moved out of a recording's file; replaces its suffix."""
_WHOSE = r"(?P<process>\d+)(?:-(?P<owner>[0-9a-f]{16}))?-(?P<number>\d+)"

_PART = r"\.(?:rank=\d+|process=\d+|job)\.(?P<process>\d+)-(?P<owner>[0-9a-f]{32})"
IN_MEMORY = Path("/dev/shm")
"""Folder of ring files; the dump folder then has a note that names the file."""
_MOST_NOTE_BYTES = 1000


class LeftKind(enum.Enum):
    """Kind of an artefact: name pattern and, for folders, the lock file inside; empty for files."""

    STREAM = rf"\.recording-{_WHOSE}\.opscope", ""
    RING = rf"\.ring-{_WHOSE}(?:-[0-9a-f]{{8}}|\.json)?", ""
    SPOOL = rf"\.dump-{_WHOSE}", LOCK
    BEGUN = rf"{_PART}", LOCK
    REPLACED = rf"{_PART}\.earlier", LOCK
    EXPORT = r"\..*\.(?P<process>\d+)-(?P<owner>[0-9a-f]{32})\.part", ""
    SEGMENTS = rf"\.recording-{_WHOSE}\.segments", "lock"
    SCRATCH = r"\.opscope-scratch-(?P<process>\d+)-(?P<owner>[0-9a-f]{32})", LOCK

    @property
    def lock(self) -> str:
        """Name of the lock file inside it; empty if the artefact is a file."""
        return self.value[1]

    def match(self, name: str) -> re.Match[str] | None:
        """Match of a name of this kind; None for another name."""
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
    """A file or folder that a process of opscope left or is writing.

    Attributes:
        kind: its kind.
        folder: the folder that contains it; may be a link.
        name: name of the file or folder.
        process: process id on the machine or in the container where it ran.
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
    """Artefact that a path names; None if the name is not an artefact's."""
    for kind in LeftKind:
        if found := kind.match(path.name):
            known = found.groupdict()
            number = int(known.get("number") or 0)
            named = known.get("owner") or ""
            return Artefact(kind, path.parent, path.name, int(known["process"]), named, number)
    return None


def find(folder: AnyPath, *kinds: LeftKind, owned_by: str | None = None) -> list[Artefact]:
    """Artefacts of these kinds in a folder, oldest first; links do not count."""
    found = []
    for entry in os.scandir(folder):
        one = at(Path(folder, entry.name)) if entry.name.startswith(".") else None
        if one is None or one.kind not in kinds or owned_by not in (None, one.owner):
            continue
        is_right = entry.is_dir if one.kind.lock else entry.is_file
        if is_right(follow_symlinks=False) and not _belongs_to_another(one):
            with suppress(FileNotFoundError):
                found.append((entry.stat().st_mtime_ns, one.number, one.name, one))
    return [one for _, _, _, one in sorted(found, key=lambda each: each[:3])]


def _belongs_to_another(one: Artefact) -> bool:
    """Whether the artefact is the segments of a recording that is still beside them."""
    return one.kind is LeftKind.SEGMENTS and one.path.with_suffix(".opscope").exists()


def below(folder: AnyPath, *kinds: LeftKind, owned_by: str | None = None) -> Iterator[Artefact]:
    """Artefacts in ``folder`` and in its ``cycle-N`` folders."""
    places = [folder := Path(folder)]
    with suppress(OSError):
        names = sorted(name for name in os.listdir(folder) if re.fullmatch(r"cycle-\d{1,9}", name))
        places += [folder / name for name in names if is_folder_inside(folder, name)]
    for place in places:
        with suppress(OSError):
            yield from find(place, *kinds, owned_by=owned_by)


def is_free(one: Artefact) -> bool:
    """Whether the artefact can be claimed now."""
    try:
        with claimed(one, tries=1) as is_there:
            return is_there
    except OSError:
        return False


def is_alive(one: Artefact) -> bool:
    """Whether the recording process is alive, on any machine; False if unknown."""
    try:
        with claimed(one, tries=1):
            return False
    except InUseError as error:
        return error.holder is Holder.RECORDER
    except OSError:
        return False


@contextmanager
def claimed(one: Artefact, wait: bool = False, tries: int = TRIES) -> Iterator[bool]:
    """Claim an artefact for this process; yields False if it is gone.

    Args:
        one: artefact to make a trace of, or to remove.
        wait: wait until another claimant has finished.
        tries: attempts to lock; 1 to only look.

    Raises:
        InUseError: a running process owns it.
        NoLocksError: its file system has no locks.
        OSError: the file is not opscope's.
    """
    try:
        one = in_memory(one) or one
        file = open_inside(one.folder, os.path.join(one.name, one.kind.lock).rstrip("/"), os.O_RDWR)
    except FileNotFoundError:
        yield False
        return
    holder = Holder.CLAIMANT
    try:
        while (holder := try_lock(file, tries)) is Holder.CLAIMANT and wait:
            wait_for_claimant(file)
        if holder is Holder.OURS and _is_mapped(one):
            holder = Holder.RECORDER
        if holder is not Holder.OURS:
            raise InUseError(one, holder)
        yield os.fstat(file).st_nlink > 0
    finally:
        if holder is Holder.OURS:
            unlock(file)  # a child forked meanwhile shares the lock
        os.close(file)


@contextmanager
def shared(one: Artefact) -> Iterator[bool]:
    """Share the lock of a recording, as its recorder does: others see it in use, also after the
    recorder ended. Waits for a claimant to finish. Yields False if the file is gone or cannot be
    locked."""
    try:
        file = open_inside(one.folder, one.name, os.O_RDWR)
    except FileNotFoundError:
        yield False
        return
    try:
        yield lock_shared(file) and os.fstat(file).st_nlink > 0
    finally:
        os.close(file)


def in_memory(one: Artefact) -> Artefact | None:
    """Ring file that a note in the folder names; None if there is no such file."""
    if one.kind is not LeftKind.RING or not one.name.endswith(NOTE):
        return None
    name = read_inside(one.folder, one.name, _MOST_NOTE_BYTES).decode(errors="replace").strip()
    found = at(IN_MEMORY / name)
    is_its = found is not None and found.name.rpartition("-")[0] == one.name.removesuffix(NOTE)
    if found is None or os.sep in name or not is_its:
        raise PermissionError(errno.EPERM, "it is not a ring file", os.fspath(one.path))
    try:
        there = os.lstat(found.path)
    except FileNotFoundError:
        return None
    if there.st_uid != os.geteuid() or stat.S_IMODE(there.st_mode) != 0o600:
        raise PermissionError(errno.EPERM, "other users can access it", os.fspath(found.path))
    return found


def _is_mapped(one: Artefact) -> bool:
    """Whether the process still maps the file: a program that closes all files releases its locks
    until the file grows again. Works only in the same container."""
    with suppress(OSError), open(f"/proc/{one.process}/maps", errors="replace") as maps:
        return any(one.owner in line and line.rstrip().endswith(f"/{one.name}") for line in maps)
    return False


def remove(one: Artefact) -> None:
    """Remove a ``claimed`` artefact and the files that belong to it."""
    if ring := in_memory(one):
        remove_inside(ring.folder, ring.name)
    remove_inside(one.folder, one.name)
    if one.kind is LeftKind.STREAM:
        remove_inside(one.folder, Path(one.name).with_suffix(SEGMENTS).name)


def remove_parts(folder: Path) -> None:
    """Remove unfinished traces of processes that are gone."""
    for one in below(folder, *PARTS):
        with suppress(OSError), claimed(one) as is_there:  # or another process writes it
            if is_there:
                remove(one)


def _held(folder: Path) -> OwnFile:
    inside = f"{folder.name}/{LOCK}"
    file = OwnFile(open_inside(folder.parent, inside, os.O_RDWR | os.O_CREAT))
    lock_shared(file.descriptor)
    if os.fstat(file.descriptor).st_nlink:
        return file
    file.close()
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(folder))


def _let_go(file: OwnFile) -> None:
    if file.is_ours():
        unlock(file.descriptor)  # a child forked meanwhile shares the lock
    file.close()


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Hold the lock of an artefact's folder while this process writes to it.

    Raises:
        FileNotFoundError: another process took it for abandoned and removed it.
        OSError: it cannot be locked.
    """
    file = _held(folder)
    try:
        yield
    finally:
        _let_go(file)


def held_folder(path: Path, mode: int = 0o777) -> OwnFile:
    """Create a folder that this process owns as long as the returned file is open."""
    while True:
        path.mkdir(mode)
        with suppress(FileNotFoundError):  # another process removed it before it was locked
            return _held(path)


@contextmanager
def locked_folder(path: Path, mode: int = 0o777) -> Iterator[Path]:
    """New folder that this process owns; removed afterwards if it is empty."""
    try:
        file = held_folder(path, mode)
        try:
            yield path
        finally:
            _let_go(file)
    finally:
        remove_inside(path.parent, f"{path.name}/{LOCK}")
        with suppress(OSError):
            path.rmdir()


_LONGEST = 100


def unfinished_name(name: str, suffix: str = "") -> str:
    """Hidden, unique name for a file that will be called ``name``."""
    return f".{name[:_LONGEST]}.{os.getpid()}-{os.urandom(16).hex()}{suffix}"
