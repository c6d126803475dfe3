"""The folder of a recording, confined to one root."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from pathlib import Path

from opscope.errors import UsageError

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=@-]*")
"""Allowed folder names: no hidden ones, and no characters special to shells or terminals."""
_EXAMPLE = "Give a folder relative to the server's output root, such as 'slow/monday'."


def new_folder(root: Path, output_dir: str, prefix: str, shared_file: str | None = None) -> Path:
    """Make a new folder, named after ``prefix`` and the time, in ``output_dir`` below ``root``.

    With ``shared_file``, the folder is named ``prefix`` alone, and other processes may have made
    it. It must not contain this file, which the calling process will write.

    Raises:
        UsageError: a name is not allowed, a part of the path is a link or a file, or
            ``shared_file`` exists.
        OSError: the folder cannot be made.
    """
    parts = [part for part in output_dir.split("/") if part not in ("", ".")]
    if output_dir.startswith("/"):
        raise UsageError(f"output_dir is an absolute path. {_EXAMPLE}")
    for part in parts:
        if not _PART.fullmatch(part):
            raise UsageError(
                f"output_dir has a part {part[:80]!r}; letters, digits and _.+=@- are allowed, and "
                f"a part begins with none of .+=@-. {_EXAMPLE}"
            )
    if prefix and not _PART.fullmatch(prefix):
        raise UsageError(
            f"profile_prefix is {prefix[:80]!r}; letters, digits and _.+=@- are allowed."
        )
    if shared_file is not None:
        return _shared_folder(root, [*parts, prefix], shared_file)
    name = f"{prefix}-" if prefix else ""
    name += time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    descriptor = _open_below(root, parts)
    try:
        return Path(root, *parts, _make_unused(descriptor, name))
    finally:
        os.close(descriptor)


def _shared_folder(root: Path, parts: list[str], file: str) -> Path:
    if not parts[-1]:
        raise UsageError(
            "merge_profiles needs a profile_prefix that names the folder, the same for every rank."
        )
    os.close(_open_below(root, parts))
    folder = Path(root, *parts)
    if (folder / file).exists():
        raise UsageError(f"{parts[-1]} has a recording of this rank. Give another profile_prefix.")
    return folder


def _open_below(root: Path, parts: list[str]) -> int:
    """Open a folder without following links; create missing ones."""
    root.mkdir(parents=True, exist_ok=True)
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    for part in parts:
        parent = folder
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=parent)
            folder = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            raise UsageError(
                f"output_dir has a part {part!r} that is a link or a file. {_EXAMPLE}"
            ) from None
        finally:
            os.close(parent)
    return folder


def _make_unused(parent: int, name: str) -> str:
    """Create ``name`` in an open folder, with a number if it exists; returns the new name."""
    number, chosen = 1, name
    while True:
        try:
            os.mkdir(chosen, dir_fd=parent)
            return chosen
        except FileExistsError:
            number += 1
            chosen = f"{name}-{number}"
