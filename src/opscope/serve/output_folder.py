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
"""Allowed folder names: not hidden, and without characters special to shells or terminals."""
_ONE_PLACE = "Give a folder relative to the server's output root, such as 'slow/monday'."


def new_folder(root: Path, output_dir: str, prefix: str, shared_file: str | None = None) -> Path:
    """Make a new folder, named after ``prefix`` and the time, in ``output_dir`` below ``root``.

    Args:
        root: folder of all recordings.
        output_dir: path below it.
        prefix: beginning of the name.
        shared_file: the folder is then named ``prefix`` alone and may exist from other processes,
            but without this file, which this process will write.

    Raises:
        UsageError: a name is not allowed, a part of the path is a link or a file, or the file
            exists.
        OSError: the folder cannot be made.
    """
    parts = [part for part in output_dir.split("/") if part not in ("", ".")]
    if output_dir.startswith("/"):
        raise UsageError(f"output_dir is an absolute path. {_ONE_PLACE}")
    for part in parts:
        if not _PART.fullmatch(part):
            raise UsageError(
                f"output_dir has a part {part[:80]!r}; letters, digits and _.+=@- are allowed, and "
                f"a part begins with none of .+=@-. {_ONE_PLACE}"
            )
    if prefix and not _PART.fullmatch(prefix):
        raise UsageError(
            f"profile_prefix is {prefix[:80]!r}; letters, digits and _.+=@- are allowed."
        )
    if shared_file is not None:
        return _shared(root, [*parts, prefix], shared_file)
    name = f"{prefix}-" if prefix else ""
    name += time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    folder = _below(root, parts)
    try:
        return Path(root, *parts, _made(folder, name))
    finally:
        os.close(folder)


def _shared(root: Path, parts: list[str], file: str) -> Path:
    if not parts[-1]:
        raise UsageError(
            "merge_profiles needs a profile_prefix that names the folder, the same for every rank."
        )
    os.close(_below(root, parts))
    folder = Path(root, *parts)
    if (folder / file).exists():
        raise UsageError(f"{parts[-1]} has a recording of this rank. Give another profile_prefix.")
    return folder


def _below(root: Path, parts: list[str]) -> int:
    """Open a folder, created if missing, without following links."""
    root.mkdir(parents=True, exist_ok=True)
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    for part in parts:
        above = folder
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=above)
            folder = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            raise UsageError(
                f"output_dir has a part {part!r} that is a link or a file. {_ONE_PLACE}"
            ) from None
        finally:
            os.close(above)
    return folder


def _made(folder: int, name: str) -> str:
    """Create a new folder in an open one: ``name``, with a number if it exists."""
    number, chosen = 1, name
    while True:
        try:
            os.mkdir(chosen, dir_fd=folder)
            return chosen
        except FileExistsError:
            number += 1
            chosen = f"{name}-{number}"
