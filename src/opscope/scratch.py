"""Folders that exist for as long as a job is looked at."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def remove_of(folder: Path, process: int) -> None:
    """Remove a folder that ``process`` made, if this is it: a forked child has its objects, too."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
