"""What processes left in a folder, and processes that are taken for their owners."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opscope.base.artefacts import LeftKind, at, find, in_memory

_HOLDER = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(file, getattr(fcntl, sys.argv[2]))
print("has it", flush=True)
input()
"""


def rings_in(folder: Path) -> list[Path]:
    return [one.path for one in find(folder, LeftKind.RING)]


def file_of_ring(name: Path) -> Path:
    """The note may be about one in memory."""
    one = at(name)
    assert one is not None
    return (in_memory(one) or one).path


def spools_in(folder: Path) -> list[Path]:
    return [one.path for one in find(folder, LeftKind.SPOOL)]


@contextmanager
def held_by_another(file: Path, how: str = "LOCK_SH") -> Iterator[subprocess.Popen[str]]:
    """Locked by a process: one that records to it (``LOCK_SH``) or recovers it (``LOCK_EX``)."""
    command = [sys.executable, "-c", _HOLDER, str(file), how]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "has it\n"
        try:
            yield process
        finally:
            process.kill()
