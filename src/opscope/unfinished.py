"""Names of what is being written: beside its final place, and cleared away if its writer dies."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from pathlib import Path

_LONGEST = 100


def unfinished_name(name: str, suffix: str = "") -> str:
    """A hidden name for what will be called ``name``, which no other process uses."""
    return f".{name[:_LONGEST]}.{os.getpid()}-{uuid.uuid4().hex}{suffix}"


def remove_unfinished(folder: Path, process: int) -> None:
    """Delete what a process that has ended left in ``folder`` under such names."""
    ours = re.compile(rf"\..*\.{process}-[0-9a-f]{{32}}(\..*)?")
    with contextlib.suppress(OSError):
        for left in os.scandir(folder):
            if not ours.fullmatch(left.name):
                continue
            if left.is_dir(follow_symlinks=False):
                shutil.rmtree(left, ignore_errors=True)
            else:
                os.unlink(left)
