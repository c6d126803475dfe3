"""Artefacts of processes in a folder: finding, liveness, claims and removal.

A name has the process's number, for people, and a random part, which makes it the process's own: in
two containers there may be processes of one number. Whether the process is there says a lock alone
(``locks``). What is made of each kind stands in ``live/recovery.py``. This imports
nothing of opscope but its neighbours, because the watchdog is run by its path.
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
"""What the name of a note ends with."""
LOCK = ".in-use"
"""In a folder that is an artefact: the file that is locked."""
SEGMENTS = ".segments"
"""In place of the suffix of a recording's file: the folder of what was moved out of that."""
_WHOSE = r"(?P<process>\d+)(?:-(?P<owner>[0-9a-f]{16}))?-(?P<number>\d+)"

_PART = r"\.(?:rank=\d+|process=\d+|job)\.(?P<process>\d+)-(?P<owner>[0-9a-f]{32})"
IN_MEMORY = Path("/dev/shm")
"""Where the files of rings are; in the folder is a note then, which names the file."""
_MOST_NOTE_BYTES = 1000


class LeftKind(enum.Enum):
    """The pattern of its names, and the file in it that is locked; none where it is a file."""

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
        """The file inside it."""
        return self.value[1]

    def match(self, name: str) -> re.Match[str] | None:
        """The parts of a name of this kind."""
        return re.fullmatch(self.value[0], name)


PARTS = LeftKind.BEGUN, LeftKind.EXPORT, LeftKind.SEGMENTS
"""What nothing can be made of any more, once its writer is gone."""


class InUseError(OSError):
    """It belongs to a process that is there."""

    def __init__(self, artefact: Artefact, holder: Holder) -> None:
        super().__init__(f"{artefact.path} belongs to {holder.value}")
        self.holder = holder


@dataclass(frozen=True)
class Artefact:
    """One of them.

    Attributes:
        kind: which.
        folder: that it lies in, and that may be a link.
        name: of the file or folder.
        process: number that its process had, where that ran.
        owner: random, of the process.
        number: of those of a process.
    """

    kind: LeftKind
    folder: Path
    name: str
    process: int
    owner: str
    number: int

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.folder / self.name


_owner = ""


def owner() -> str:
    """What the names of all that this process leaves have in common."""
    global _owner
    if not _owner:
        _owner = os.urandom(8).hex()
    return _owner


def _forget_owner() -> None:
    global _owner
    _owner = ""


os.register_at_fork(after_in_child=_forget_owner)


def new_name(prefix: str, number: int, suffix: str = "") -> str:
    """For something of this process: ``.ring-PID-RANDOM-NUMBER``."""
    return f"{prefix}{os.getpid()}-{owner()}-{number}{suffix}"


def at(path: Path) -> Artefact | None:
    """What a path is by its name; None for something else."""
    for kind in LeftKind:
        if found := kind.match(path.name):
            known = found.groupdict()
            number = int(known.get("number") or 0)
            named = known.get("owner") or ""
            return Artefact(kind, path.parent, path.name, int(known["process"]), named, number)
    return None


def find(folder: AnyPath, *kinds: LeftKind, owned_by: str | None = None) -> list[Artefact]:
    """Those in a folder, oldest first; links are none."""
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
    """Segments belong to the recording beside them."""
    return one.kind is LeftKind.SEGMENTS and one.path.with_suffix(".opscope").exists()


def below(folder: AnyPath, *kinds: LeftKind, owned_by: str | None = None) -> Iterator[Artefact]:
    """Those in ``folder``, and in the folders of its cycles."""
    places = [folder := Path(folder)]
    with suppress(OSError):
        names = sorted(name for name in os.listdir(folder) if re.fullmatch(r"cycle-\d{1,9}", name))
        places += [folder / name for name in names if is_folder_inside(folder, name)]
    for place in places:
        with suppress(OSError):
            yield from find(place, *kinds, owned_by=owned_by)


def is_free(one: Artefact) -> bool:
    """Whether it can be claimed now."""
    try:
        with claimed(one, tries=1) as is_there:
            return is_there
    except OSError:
        return False


def is_alive(one: Artefact) -> bool:
    """Whether the process that records to it is there, wherever that is; False if unknown."""
    try:
        with claimed(one, tries=1):
            return False
    except InUseError as error:
        return error.holder is Holder.RECORDER
    except OSError:
        return False


@contextmanager
def claimed(one: Artefact, wait: bool = False, tries: int = TRIES) -> Iterator[bool]:
    """Have it be this process's; False where it is gone.

    Args:
        one: of which a trace is to be made, or which is to be removed.
        wait: for another process that does so, to see whether it has.
        tries: 1 for who only looks.

    Raises:
        InUseError: a process is there that has it.
        NoLocksError: its file system has no locks.
        OSError: it is not from opscope.
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
            unlock(file)  # a child that was forked meanwhile has it, too
        os.close(file)


@contextmanager
def shared(one: Artefact) -> Iterator[bool]:
    """Have a recording as the process does that recorded it, and asks for its trace: others see it
    in use, also once that process has ended. False where another process makes its trace, or has.
    """
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
    """The file of a ring that a note in the folder is about; None where there is no such file."""
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
    """A program that closes all files releases its locks until its file grows again; in the same
    container, its memory mappings still show the file."""
    with suppress(OSError), open(f"/proc/{one.process}/maps", errors="replace") as maps:
        return any(one.owner in line and line.rstrip().endswith(f"/{one.name}") for line in maps)
    return False


def remove(one: Artefact) -> None:
    """Remove it, and what belongs to it; while it is ``claimed``."""
    if ring := in_memory(one):
        remove_inside(ring.folder, ring.name)
    remove_inside(one.folder, one.name)
    if one.kind is LeftKind.STREAM:
        remove_inside(one.folder, Path(one.name).with_suffix(SEGMENTS).name)


def remove_parts(folder: Path) -> None:
    """Of traces that were being written by processes that are gone."""
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
        unlock(file.descriptor)  # a child that was forked meanwhile has it, too
    file.close()


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Have a folder that is an artefact be this process's, which writes it.

    Raises:
        FileNotFoundError: another process took it for left, and has removed it.
        OSError: there can be no lock in it.
    """
    file = _held(folder)
    try:
        yield
    finally:
        _let_go(file)


def held_folder(path: Path, mode: int = 0o777) -> OwnFile:
    """Make a folder that is this process's for as long as the file is open that this returns."""
    while True:
        path.mkdir(mode)
        with suppress(FileNotFoundError):  # it was removed before it was locked
            return _held(path)


@contextmanager
def locked_folder(path: Path, mode: int = 0o777) -> Iterator[Path]:
    """A new folder that is this process's; gone afterwards, unless something else is in it."""
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
    """A hidden name for what will be called ``name``, which no other process uses."""
    return f".{name[:_LONGEST]}.{os.getpid()}-{os.urandom(16).hex()}{suffix}"
