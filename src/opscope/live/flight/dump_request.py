"""Requests for dumps: the reason, the result, and the limits."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import opscope._native as _native
from opscope.launch.process_end import signal_name


@dataclass(frozen=True)
class Reason:
    """Why and when a dump was made."""

    kind: str  # one or two words; part of the folder's name
    detail: str = ""  # details for people
    time_ns: int = field(default_factory=time.time_ns)  # Unix time of the event

    @classmethod
    def of_news(cls, news: str, value: int, time_ns: int | None = None) -> Reason:
        """Reason for a condition that the native watch detected."""
        kind, detail = {
            "signal": ("signal", signal_name(value)),
            "standstill": ("hang", f"no step or event for {value / 1e9:.1f} s"),
            "memory": ("memory jump", f"{value / (1 << 20):,.0f} MiB more are resident"),
        }[news]
        return cls(kind, detail, time.time_ns() if time_ns is None else time_ns)

    def as_json(self, ended: Mapping[str, Any] | None = None) -> str:
        """JSON for the process that makes the trace; ``ended``: how the recorded process ended."""
        values = {"kind": self.kind, "detail": self.detail, "time_ns": self.time_ns}
        return json.dumps(values if ended is None else {**values, "ended": ended})

    @property
    def slug(self) -> str:
        """``kind`` as part of a file name."""
        return re.sub(r"[^a-z0-9]+", "-", self.kind.lower()).strip("-")[:40] or "dump"

    def __str__(self) -> str:
        return f"{self.kind} ({self.detail})" if self.detail else self.kind


SPOOL_PREFIX = ".dump-"
"""Prefix of folders with unfinished dumps."""
TRACE_SUFFIX = ".opscope"
WHOLE = "whole"
"""File in a spool that is written last; also in native/watch/dump_writer.h."""


def is_complete(spool: Path) -> bool:
    """Whether all files of a spool are written."""
    return os.path.lexists(spool / WHOLE)


@dataclass
class DumpRequest:
    """A requested dump."""

    reason: Reason
    is_called_for: bool = False  # requested by a call or a signal, not by a condition
    done: threading.Event = field(default_factory=threading.Event)  # set when made or refused
    path: Path | None = None  # path of the future trace; None if refused
    refusal: str = ""  # why it was refused


class DumpLimits:
    """Decides whether a dump may be made; not thread-safe."""

    def __init__(self, directory: Path, interval_ns: int, max_disk_bytes: int) -> None:
        self._directory = directory
        self._interval_ns, self._max_disk_bytes = interval_ns, max_disk_bytes
        self._last_ns: dict[str, int] = {}
        self.refused: Counter[str] = Counter()

    def refusal(self, kind: str, is_called_for: bool) -> str:
        """Why a dump of this kind is refused now; empty if it is allowed."""
        now_ns = time.monotonic_ns()
        last_ns = self._last_ns.get(kind)
        why = ""
        if not is_called_for and last_ns is not None and now_ns - last_ns < self._interval_ns:
            why = f"the limit is one of this kind in {self._interval_ns / 1e9:g} s"
        elif (used := disk_bytes(self._directory)) >= self._max_disk_bytes:
            why = f"dumps fill {used >> 20:,} MiB, the limit is {self._max_disk_bytes >> 20:,} MiB"
        if why:
            self.refused[why] += 1
        else:
            self._last_ns[kind] = now_ns
        return why


def disk_bytes(directory: Path) -> int:
    """Size of all dumps in a folder, finished or not."""
    return _native.folder_bytes(os.fspath(directory), SPOOL_PREFIX, TRACE_SUFFIX)
