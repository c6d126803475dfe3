"""How many dumps there may be, and how much of a disk they may fill. What is refused is counted."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

SPOOL_PREFIX = ".dump-"
"""What the folders of dumps that are being written begin with."""
TRACE_SUFFIX = ".opscope"


class DumpLimits:
    """Says whether a dump may be made; one thread at a time asks."""

    def __init__(self, directory: Path, interval_ns: int, max_disk_bytes: int) -> None:
        """Set the limits.

        Args:
            directory: where dumps are.
            interval_ns: between two dumps of the same kind that nobody called for.
            max_disk_bytes: of all dumps in ``directory``, whoever wrote them.
        """
        self._disk = DiskUse(directory)
        self._interval_ns, self._max_disk_bytes = interval_ns, max_disk_bytes
        self._last_ns: dict[str, int] = {}
        self.refused: Counter[str] = Counter()

    def refusal(self, kind: str, is_called_for: bool) -> str:
        """Why there may be no dump of this kind now; empty if there may."""
        now_ns = time.monotonic_ns()
        last_ns = self._last_ns.get(kind)
        why = ""
        if not is_called_for and last_ns is not None and now_ns - last_ns < self._interval_ns:
            why = f"one of this kind in {self._interval_ns / 1e9:g} s is the limit"
        elif (used := self._disk.bytes()) >= self._max_disk_bytes:
            why = f"dumps fill {used >> 20:,} MiB, the limit is {self._max_disk_bytes >> 20:,} MiB"
        if why:
            self.refused[why] += 1
        else:
            self._last_ns[kind] = now_ns
        return why


class DiskUse:
    """What dumps take: of finished ones, which do not change, it is asked once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._finished: dict[str, int] = {}

    def bytes(self) -> int:
        """Of all dumps in the folder, finished or not."""
        names = _names(self._directory)
        finished = {name for name in names if name.endswith(TRACE_SUFFIX)}
        self._finished = {
            name: self._finished.get(name) or _folder_bytes(self._directory / name)
            for name in finished
        }
        begun = (name for name in names if name.startswith(SPOOL_PREFIX))
        unfinished = sum(_folder_bytes(self._directory / name) for name in begun)
        return sum(self._finished.values()) + unfinished


def _folder_bytes(folder: Path) -> int:
    return sum(_size(Path(inner, file)) for inner, _, files in os.walk(folder) for file in files)


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # it has just been renamed or removed
        return 0
