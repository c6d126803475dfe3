"""Why a dump was made, in words: what its manifest, its file name and its summary say."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Reason:
    """Why, and when.

    Attributes:
        kind: a word or two; part of the folder's name.
        detail: the rest, for people.
        time_ns: Unix time of what happened.
    """

    kind: str
    detail: str = ""
    time_ns: int = field(default_factory=time.time_ns)

    @classmethod
    def of_news(cls, news: str, value: int, time_ns: int | None = None) -> Reason:
        """Of what the native watch saw."""
        kind, detail = {
            "signal": ("signal", signal_name(value)),
            "standstill": ("hang", f"no step or event for {value / 1e9:.1f} s"),
            "memory": ("memory jump", f"{value / (1 << 20):,.0f} MiB more are resident"),
        }[news]
        return cls(kind, detail, time.time_ns() if time_ns is None else time_ns)

    def said(self, ended: Mapping[str, Any] | None = None) -> str:
        """As JSON, for the process that makes the trace; ``ended``: what became of this one."""
        said = {"kind": self.kind, "detail": self.detail, "time_ns": self.time_ns}
        return json.dumps(said if ended is None else {**said, "ended": ended})

    @property
    def slug(self) -> str:
        """``kind`` as part of a file's name."""
        return re.sub(r"[^a-z0-9]+", "-", self.kind.lower()).strip("-")[:40] or "dump"

    def __str__(self) -> str:
        return f"{self.kind} ({self.detail})" if self.detail else self.kind


def signal_name(number: int) -> str:
    """``SIGUSR2`` for 12."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
