"""Identifies the torch of a bridge, and finds shipped bridges.

Shipped bridges are beside the compiled core, with ``bridges.json``: for each, its
:meth:`TorchBuild.fingerprint` and the hash of its file. A build from source has none.

A library runs with the program's rights. So it is loaded only if just this user and root can write
to the file, its parent folders and all links on its path.
"""

from __future__ import annotations

import grp
import hashlib
import json
import os
import platform
import pwd
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import opscope._native as _native

_ROOT = 0


def why_not_private(path: Path) -> str | None:
    """Name another user who can change ``path``; None if only this user and root can.

    A folder with the sticky bit (``/tmp``) counts as private for files of this user. A group may
    write if this user is its only member.

    Args:
        path: a file or folder; if it does not exist, its existing parents are checked.

    Returns:
        The first place that another user can change, and the user.
    """
    for place in _way_to(path):
        try:
            status = os.lstat(place)
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"{place} cannot be read ({error.strerror or error})"
        reason = _other_writer(place, status)
        if reason is not None:
            return reason
    return None


def _way_to(path: Path) -> Iterator[Path]:
    """The path as written, with its links, and the real path; each with all parents."""
    written = Path(os.path.abspath(path))
    real = Path(os.path.realpath(written))
    yield from dict.fromkeys((*reversed(written.parents), written, *reversed(real.parents), real))


def _other_writer(place: Path, status: os.stat_result) -> str | None:
    if status.st_uid not in (_ROOT, os.geteuid()):
        return f"{place} belongs to {_user(status.st_uid)}"
    if stat.S_ISLNK(status.st_mode):  # the mode of a link has no meaning
        return None
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        return None
    if status.st_mode & stat.S_IWOTH:
        return f"all users may write to {place}"
    if status.st_mode & stat.S_IWGRP and not _is_ours_alone(status.st_gid):
        return f"{_group(status.st_gid)} may write to {place}"
    return None


def _is_ours_alone(group: int) -> bool:
    """Whether a group has no member but this user and root."""
    if group == _ROOT:
        return True
    ours = {_ROOT, os.geteuid()}
    try:
        members = {pwd.getpwnam(name).pw_uid for name in grp.getgrgid(group).gr_mem}
    except KeyError:  # unknown group or member
        return False
    members.update(user.pw_uid for user in pwd.getpwall() if user.pw_gid == group)
    return members <= ours


def _user(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def _group(gid: int) -> str:
    try:
        return f"group {grp.getgrgid(gid).gr_name}"
    except KeyError:
        return f"group {gid}"


# NDEBUG as in every torch release: torch's inline classes have other members without it.
FLAGS = ("-std=c++20", "-O2", "-DNDEBUG", "-shared", "-fPIC", "-fvisibility=hidden")

# Builds of one release that differ in the devices they compute on, and not in the headers that the
# bridge includes: 2.13.0, 2.13.0+cpu, 2.13.0+cu130.
_RELEASE = re.compile(r"(\d+\.\d+\.\d+)(\+cpu|\+cu\d+)?")


@dataclass(frozen=True)
class TorchBuild:
    """One build of torch."""

    version: str  # full version, such as ``2.13.0+cpu``
    git: str  # commit it was built from
    cxx11_abi: bool  # whether it was built with the C++ library's newer ABI
    folder: Path  # folder with its ``include`` and ``lib``

    @classmethod
    def of(cls, torch: Any) -> TorchBuild:
        """The build of the module ``torch``."""
        return cls(
            str(torch.__version__),
            str(torch.version.git_version),
            bool(torch.compiled_with_cxx11_abi()),
            Path(torch.__file__).parent,
        )

    def fingerprint(self, source: Path) -> dict[str, str]:
        """Facts that decide whether a bridge from the sources in folder ``source`` fits.

        Python's version is left out: the bridge does not include or call Python.
        """
        content = hashlib.sha256()
        for file in sorted(path for path in source.rglob("*") if path.is_file()):
            content.update(str(file.relative_to(source)).encode())
            content.update(file.read_bytes())
        return {
            "torch": self.version,
            "torch_git": self.git,
            "cxx11_abi": str(int(self.cxx11_abi)),
            "platform": f"{sys.platform}-{platform.machine()}",
            "flags": " ".join(FLAGS),
            "source": content.hexdigest(),
        }


def release_of(version: str) -> str | None:
    """The release that torch ``version`` is a build of; None for a custom build."""
    known = _RELEASE.fullmatch(version)
    return known[1] if known else None


INDEX = "bridges.json"


@dataclass(frozen=True)
class PrebuiltBridge:
    """A shipped bridge for the installed torch."""

    path: Path  # path of the library
    torch_release: str  # release it was compiled for, such as ``2.13.0``
    problem: str | None  # why the library must not be loaded; None if it may be


def folder() -> Path:
    """Folder of shipped bridges; may not exist."""
    return Path(_native.__file__).parent / "prebuilt_bridges"


def index_entry(fingerprint: Mapping[str, str], library: Path) -> dict[str, str]:
    """Entry of the index for ``library``, compiled for ``fingerprint``."""
    return {**fingerprint, "file": library.name, "library": _hash(library)}


def find_prebuilt(fingerprint: Mapping[str, str]) -> PrebuiltBridge | None:
    """The shipped bridge for the torch of ``fingerprint``; None without one."""
    release = release_of(fingerprint["torch"])
    if release is None:
        return None
    wanted = {**fingerprint, "torch": release}
    for entry in _index():
        if all(entry.get(key) == value for key, value in wanted.items()):
            path = folder() / Path(str(entry.get("file"))).name
            return PrebuiltBridge(path, release, _problem(path, str(entry.get("library"))))
    return None


def ships_for(torch_release: str) -> bool:
    """Whether a bridge ships for any build of that release; it may still not fit."""
    return any(entry.get("torch") == torch_release for entry in _index())


def _index() -> list[dict[str, Any]]:
    try:
        entries = json.loads((folder() / INDEX).read_text(encoding="utf-8"))["bridges"]
        return [entry for entry in entries if isinstance(entry, dict)]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _problem(path: Path, expected: str) -> str | None:
    reason = why_not_private(path)
    if reason is not None:
        return reason
    try:
        return None if _hash(path) == expected else f"{path} differs from the shipped file"
    except OSError as error:
        return f"{path} cannot be read ({error.strerror or error})"


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
