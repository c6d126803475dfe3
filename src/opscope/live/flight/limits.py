"""How many dumps there may be, and how much of a disk they may fill. What is refused is counted."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

from opscope import _native

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
        self._directory = directory
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
        elif (used := disk_bytes(self._directory)) >= self._max_disk_bytes:
            why = f"dumps fill {used >> 20:,} MiB, the limit is {self._max_disk_bytes >> 20:,} MiB"
        if why:
            self.refused[why] += 1
        else:
            self._last_ns[kind] = now_ns
        return why


def disk_bytes(directory: Path) -> int:
    """Of all dumps in a folder, finished or not."""
    return _native.folder_bytes(os.fspath(directory), SPOOL_PREFIX, TRACE_SUFFIX)
