"""Checks that only this user can change a file.

A library runs with the program's rights. So it is loaded only if just this user and root can write
to the file, its parent folders and all links on its path.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

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
