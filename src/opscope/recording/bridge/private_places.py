"""Whether only this user can change a file.

What is loaded into a program is run with that program's rights. So it is loaded only from where
this user and root alone can write: the file itself, all folders above it, all links on the way.
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
    """Say who else could change what is at ``path``; None if only this user and root can.

    A folder in which everybody may write, but only owners may remove (``/tmp``), is as good as one
    of our own for what lies in it and is ours. A group may write if this user is its only member.

    Args:
        path: of a file or folder, which need not exist: then it is about those above it that do.

    Returns:
        The first place at which somebody else could, and who that is.
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
    """The path as it is written, with its links, and where they lead."""
    written = Path(os.path.abspath(path))
    real = Path(os.path.realpath(written))
    yield from dict.fromkeys((*reversed(written.parents), written, *reversed(real.parents), real))


def _other_writer(place: Path, status: os.stat_result) -> str | None:
    if status.st_uid not in (_ROOT, os.geteuid()):
        return f"{place} belongs to {_user(status.st_uid)}"
    if stat.S_ISLNK(status.st_mode):  # what its mode says means nothing
        return None
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        return None
    if status.st_mode & stat.S_IWOTH:
        return f"all users may write to {place}"
    if status.st_mode & stat.S_IWGRP and not _is_ours_alone(status.st_gid):
        return f"{_group(status.st_gid)} may write to {place}"
    return None


def _is_ours_alone(group: int) -> bool:
    """Many systems give each user a group of their own, and let it write to all that is theirs."""
    if group == _ROOT:
        return True
    ours = {_ROOT, os.geteuid()}
    try:
        members = {pwd.getpwnam(name).pw_uid for name in grp.getgrgid(group).gr_mem}
    except KeyError:  # a group or a member that this system does not know
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
