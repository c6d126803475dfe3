"""Whether a process of this machine still runs."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def is_there(process: int) -> bool:
    """Whether there is a process of this number that has not ended, waited for or not."""
    if process <= 0:  # a group of processes
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass
    return not (state_of(process) in ("Z", "X") and _thread_count(process) == 1)


def state_of(process: int) -> str:
    """The kernel's letter for what it does; empty where nobody says."""
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def _thread_count(process: int) -> int:
    """Its first one may have ended before the others."""
    with contextlib.suppress(OSError):
        return len(os.listdir(f"/proc/{process}/task"))
    return 1
